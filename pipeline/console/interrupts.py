"""What Ctrl-C, SIGTERM and SIGHUP do to a command, also to one whose work continues elsewhere."""

from __future__ import annotations

import signal
import sys
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The one that came. Not in the text of what is raised: Beam adds to that, and may replace it.
_received = ""


def install() -> None:
    """Has each of them raise a `KeyboardInterrupt`; after the first only Ctrl-C does, since the
    others come twice at a time, as from `timeout` and make. What is ignored stays so, as SIGHUP
    under nohup."""
    global _received
    _received = ""
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _received
    if _received and number != signal.SIGINT:
        return
    _received = signal.Signals(number).name
    raise KeyboardInterrupt


def ignore() -> None:
    """Has none of them do anything from now on: this process is about to end."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def get_received() -> str:
    """Returns the name of the signal that has interrupted this process, or an empty string."""
    return _received


def wants_to_cancel(what: str) -> bool:
    """Asks whether `what` is to be cancelled or left; it is left without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        answer = input(f"\nCtrl-C: [l]eave {what} running, or [c]ancel it? [l] ")
    except (EOFError, KeyboardInterrupt, OSError):
        return False
    return answer.strip().lower() in ("c", "cancel")
