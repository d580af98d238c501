"""What Ctrl-C is to mean for work that continues elsewhere."""

from __future__ import annotations

import sys


def wants_to_cancel(what: str) -> bool:
    """Asks whether `what` is to be cancelled or left; it is left without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        answer = input(f"\nCtrl-C: [l]eave {what} running, or [c]ancel it? [l] ")
    except (EOFError, KeyboardInterrupt, OSError):
        return False
    return answer.strip().lower() in ("c", "cancel")
