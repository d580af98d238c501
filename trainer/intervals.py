"""How well a model does on some examples, with 95 % confidence intervals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

_Z = 1.959963984540054  # of 95 %, two-sided


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure, and the interval it is in with 95 % confidence if examples are independent."""

    value: float
    low: float
    high: float


def share(hits: np.ndarray) -> Estimate:
    """Returns the share of true `hits`, `[examples]` bool, with Wilson's interval (1927)."""
    n, p = len(hits), float(np.mean(hits))
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return Estimate(p, min(p, middle - half), max(p, middle + half))


def mean(values: np.ndarray) -> Estimate:
    """Returns the mean of `[examples]` values with the normal interval."""
    value = float(np.mean(values))
    half = _Z * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(value, value - half, value + half)


def root_mean_square(values: np.ndarray) -> Estimate:
    """Returns the root of the mean square, with the roots of the ends of its interval."""
    square = mean(np.square(values))
    low, high = math.sqrt(max(0.0, square.low)), math.sqrt(square.high)
    return Estimate(math.sqrt(square.value), low, high)


def area_under_roc(labels: np.ndarray, scores: np.ndarray) -> Estimate | None:
    """Returns how likely a positive example scores above a negative one, ties counting half.

    `labels` is `[examples]` of 0 and 1; the interval is that of Hanley and McNeil, 1982. `None` if
    only one label is there.
    """
    positive = int(np.sum(labels == 1))
    negative = len(labels) - positive
    if not positive or not negative:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    above = ranks[labels == 1].sum() - positive * (positive + 1) / 2
    area = float(above / (positive * negative))
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (
        area * (1 - area) + (positive - 1) * (first - area**2) + (negative - 1) * (second - area**2)
    ) / (positive * negative)
    half = _Z * math.sqrt(max(0.0, variance))
    return Estimate(area, max(0.0, area - half), min(1.0, area + half))
