"""What Ctrl-C, SIGTERM and SIGHUP do to a command, also to one whose work continues elsewhere."""

from __future__ import annotations

import signal
import sys
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def install() -> None:
    """Has each of them raise a `KeyboardInterrupt` that names it. What is ignored stays so, as
    SIGHUP under nohup."""
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def wants_to_cancel(what: str) -> bool:
    """Asks whether `what` is to be cancelled or left; it is left without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        answer = input(f"\nCtrl-C: [l]eave {what} running, or [c]ancel it? [l] ")
    except (EOFError, KeyboardInterrupt, OSError):
        return False
    return answer.strip().lower() in ("c", "cancel")
