"""How well a model does on some examples, with 95 % confidence intervals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

_Z = 1.959963984540054  # of 95 %, two-sided


# Below so many examples (of each label, for an area) an interval says little more than that.
FEW = 10


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure, and the interval it is in with 95 % confidence if examples are independent; `few`
    if there are too few of them to say anything by it."""

    value: float
    low: float
    high: float
    few: bool = False


def share(hits: np.ndarray) -> Estimate:
    """Returns the share of true `hits`, `[examples]` bool, with Wilson's interval (1927)."""
    return wilson(int(np.count_nonzero(hits)), len(hits))


def wilson(hits: int, n: int) -> Estimate:
    """Returns the share of `hits` among `n`, with Wilson's interval (1927); of none it could be
    anything, and is said to be 1."""
    if not n:
        return Estimate(1.0, 0.0, 1.0, few=True)
    p = hits / n
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return Estimate(p, min(p, middle - half), max(p, middle + half), n < FEW)


def mean(values: np.ndarray) -> Estimate:
    """Returns the mean of `[examples]` values that are 0 or more, with the interval of its
    logarithm by the delta method, so that it ends above zero; one example has none."""
    n, value = len(values), float(np.mean(values))
    if n < 2 or not value:
        return Estimate(value, value, value, n < FEW)
    ratio = math.exp(t(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n) / value)
    return Estimate(value, value / ratio, value * ratio, n < FEW)


def t(freedom: int) -> float:
    """Returns the 97.5 % point of Student's t, by its expansion (Abramowitz and Stegun, 26.7.5)."""
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def root_mean_square(values: np.ndarray) -> Estimate:
    """Returns the root of the mean square, with the roots of the ends of its interval."""
    square = mean(np.square(values))
    low, value, high = (math.sqrt(x) for x in (square.low, square.value, square.high))
    return Estimate(value, low, high, square.few)


def area_under_roc(labels: np.ndarray, scores: np.ndarray) -> Estimate | None:
    """Returns how likely a positive example scores above a negative one, ties counting half.

    `labels` is `[examples]` of 0 and 1. The interval covers two: that of Newcombe (2006, method 5),
    which holds its promise for few examples and for areas near 1, and DeLong's (1988), of the
    logit, which follows how the scores really lie. `None` if only one label is there.
    """
    of_positive, of_negative = scores[labels == 1], scores[labels != 1]
    counts = len(of_positive), len(of_negative)
    if not all(counts):
        return None
    # How often each positive example is above the negative ones, and each negative one below.
    above, below = _above(of_positive, of_negative), 1 - _above(of_negative, of_positive)
    area = float(np.mean(above))
    low, high = _newcombe(area, *counts)
    if min(counts) > 1 and 0 < area < 1:
        variance = sum(float(np.var(x, ddof=1)) / len(x) for x in (above, below))
        half, middle = _Z * math.sqrt(variance) / (area * (1 - area)), math.log(area / (1 - area))
        low, high = min(low, _logistic(middle - half)), max(high, _logistic(middle + half))
    return Estimate(area, low, high, min(counts) < FEW)


def _above(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns `[scores]`, the share of `others` that are below each score."""
    ordered = np.sort(others)
    left, right = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    return (left + right) / 2 / len(others)


def _newcombe(area: float, positive: int, negative: int) -> tuple[float, float]:
    """Returns the areas from which `area` is as far as chance takes it, one on each side."""
    others = (positive + negative) / 2 - 1

    def reaches(true: float) -> bool:
        spread = 1 + others * ((1 - true) / (2 - true) + true / (1 + true))
        variance = true * (1 - true) * spread / (positive * negative)
        return abs(area - true) <= _Z * math.sqrt(variance)

    ends = []
    for beyond in (0.0, 1.0):
        inside, outside = area, beyond
        for _ in range(50):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if reaches(middle) else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _logistic(x: float) -> float:
    return 0.5 * (1 + math.tanh(x / 2))
