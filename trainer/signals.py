"""Being asked to stop: SIGTERM (preemption, the launcher), SIGINT (Ctrl-C) or SIGHUP (the terminal
was closed) end it softly. What was ignored from the start, as under nohup, stays ignored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# Set once a signal has come. Python runs handlers between two session calls, so training sees
# it after the step under way.
stop_requested = threading.Event()


def _note(_signal: int, _frame: FrameType | None) -> None:
    stop_requested.set()


def stop_softly() -> None:
    """From now on the signals set `stop_requested` instead of ending the process."""
    stop_requested.clear()
    _handle(_note)


def stop_at_once() -> None:
    """From now on the signals end the process, which has nothing to save."""
    _handle(signal.SIG_DFL)


def _handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
