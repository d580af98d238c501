"""Being asked to stop: SIGTERM (preemption, the launcher) or SIGINT (Ctrl-C) end it softly."""

from __future__ import annotations

import signal
import threading
from types import FrameType

# Set once a signal has come. Python runs handlers between two session calls, so training sees
# it after the step under way.
stop_requested = threading.Event()


def _note(_signal: int, _frame: FrameType | None) -> None:
    stop_requested.set()


def stop_softly() -> None:
    """From now on SIGTERM and SIGINT set `stop_requested` instead of ending the process."""
    stop_requested.clear()
    signal.signal(signal.SIGTERM, _note)
    signal.signal(signal.SIGINT, _note)


def stop_at_once() -> None:
    """From now on SIGTERM and SIGINT end the process, which has nothing to save."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
