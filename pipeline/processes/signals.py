"""Being asked to stop: SIGTERM (preemption, the launcher), SIGINT (Ctrl-C) or SIGHUP (the terminal
was closed) end a process softly; a Ctrl-C after that, at once. What was ignored from the start, as
under nohup, stays ignored."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# Set once a signal has come; training looks at it after each step.
stop_requested = threading.Event()
# Set by a Ctrl-C after that.
insisted = threading.Event()


def _handle(_signal: int, _frame: FrameType | None) -> None:
    """Does nothing: `listen` does it. A handler may interrupt the main thread inside an event,
    whose lock is not reentrant: to set the same one there waits for ever."""


def stop_softly() -> None:
    """From now on the signals set `stop_requested` instead of ending the process."""
    stop_requested.clear()
    insisted.clear()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=listen, args=(reading,), name="signals", daemon=True).start()
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def listen(descriptor: int) -> None:
    """Notes signals, also while the main thread waits in TensorFlow, where no handler is called."""
    known = False
    while numbers := os.read(descriptor, 64):
        for number in numbers:
            # The others may come twice at a time: of `timeout` and make, a terminal and a shell.
            if known and number == signal.SIGINT:
                insisted.set()
            if number in _NUMBERS:
                known = True
                stop_requested.set()
