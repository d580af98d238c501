"""What it means to be the best so far."""

from __future__ import annotations

import math


def is_better(value: float, best: float | None, higher_is_better: bool, by: float = 0.0) -> bool:
    """True if `value` beats `best` by more than `by`.

    NaN never wins, and a `best` of `None` or NaN loses to any number. Of two equals the older
    stays.
    """
    if math.isnan(value):
        return False
    if best is None or math.isnan(best):
        return True
    return value > best + by if higher_is_better else value < best - by
