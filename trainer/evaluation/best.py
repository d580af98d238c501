"""What it means to be the best so far."""

from __future__ import annotations

import math

# What a metric is, where it was something else in an earlier version.
_MEANINGS = {"loss": "mean of examples"}


def describe_metric(metric: str) -> str | None:
    """Returns what to keep with values of a metric, also of one label, so that they are compared
    with their like only; `None` if its name is enough."""
    return _MEANINGS.get(metric.rpartition("/")[2])


def is_better(value: float, best: float | None, *, higher_is_better: bool, by: float = 0.0) -> bool:
    """True if `value` beats `best` by more than `by`.

    What is not finite never wins, and as `best` it loses to any number that is, as `None` does. Of
    two equals the older stays.
    """
    if not math.isfinite(value):
        return False
    if best is None or not math.isfinite(best):
        return True
    return value > best + by if higher_is_better else value < best - by
