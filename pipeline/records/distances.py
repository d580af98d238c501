"""How far apart the values of a column are in two sets of records, by their statistics alone.

Statistics are not the values, so a distance is known between two bounds; these hold for certain.
Statistics that agree to the last digit are taken for those of the same values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pipeline import config
from pipeline.records import coarse
from pipeline.records.manifest import ColumnStatistics

# Quantiles for one in a thousand: the normal distribution, one- and two-sided, and Kolmogorov's.
_NORMAL, _TWO_SIDED, _KOLMOGOROV = 3.09, 3.29, 1.95
# What manifests of earlier versions keep of a percentile, and do not say.
_BITS_BEFORE = 10
# float64, which percentiles are, has all whole numbers up to this.
_EXACT = 2**53
# Values that occur so often in two sets together are as good as normally distributed.
_RARE = 100


@dataclasses.dataclass(frozen=True)
class Distance:
    """From 0, the same, to 1, nothing in common. It is between `least` and `greatest`."""

    least: float
    greatest: float

    @property
    def middle(self) -> float:
        """The value that is at most `error` wrong."""
        return (self.least + self.greatest) / 2

    @property
    def error(self) -> float:
        """Half of what lies between the bounds."""
        return (self.greatest - self.least) / 2

    def __str__(self) -> str:
        return f"{self.middle:.3f} ± {self.error:.3f}"


_NONE = Distance(0.0, 0.0)


def jensen_shannon(a: ColumnStatistics, b: ColumnStatistics) -> Distance | None:
    """Returns the Jensen-Shannon distance, base 2, of two counted columns; `None` of others.

    It is exact where vocabularies are whole. Values that only one of them lists may be any of those
    that the other does not: all of them, or none.
    """
    if not (a.vocabulary and b.vocabulary):
        return None
    if a == b:
        return _NONE
    shares = [{v: n / one.count for v, n in one.vocabulary or ()} for one in (a, b)]
    whole = [sum(n for _, n in one.vocabulary or ()) == one.count for one in (a, b)]
    known = [
        value
        for value in {**shares[0], **shares[1]}
        if all(value in listed or complete for listed, complete in zip(shares, whole, strict=True))
    ]
    p, q = (np.array([listed.get(value, 0.0) for value in known]) for listed in shares)
    rest = [max(0.0, 1.0 - float(part.sum())) for part in (p, q)]
    same = _compute_distance(np.append(p, rest[0]), np.append(q, rest[1]))
    apart = _compute_distance(np.append(p, [rest[0], 0.0]), np.append(q, [0.0, rest[1]]))
    return Distance(min(same, apart), apart)


def _compute_distance(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2
    return math.sqrt(
        max(0.0, (_compute_divergence(p, middle) + _compute_divergence(q, middle)) / 2)
    )


def _compute_divergence(p: np.ndarray, q: np.ndarray) -> float:
    some = p > 0
    return float((p[some] * np.log2(p[some] / q[some])).sum())


def kolmogorov_smirnov(a: ColumnStatistics, b: ColumnStatistics) -> Distance | None:
    """Returns the greatest difference of the two cumulative shares; `None` without numbers.

    It is exact where all values are listed. By percentiles each share is known within 0.01, and so
    the difference is, unless percentiles themselves are known too roughly
    (`ColumnStatistics.quantile_bits`), float32 has made the values too coarse, or float64 the
    percentiles of whole numbers; the extremes and the list of these are exact.
    """
    if a.quantiles is None or b.quantiles is None:
        return None
    rounded = any(map(_compute_rounding, (a, b)))
    if a == b and not rounded:
        return _NONE
    whole = _is_whole(a) and _is_whole(b)
    if whole and _are_apart(a, b):
        return Distance(1.0, 1.0)
    if _lists_all(a) and _lists_all(b) and (whole or not rounded):
        counts = [dict(one.vocabulary or ()) for one in (a, b)]
        places = sorted({**counts[0], **counts[1]})
        p, q = (
            np.cumsum([known.get(v, 0) for v in places]) / sum(known.values()) for known in counts
        )
        exact = float(np.abs(p - q).max())
        return Distance(exact, exact)
    bounds = [_build_bounds(one) for one in (a, b)]
    places = np.unique(np.concatenate([edge for pair in bounds for edge in pair]))
    (low_a, high_a), (low_b, high_b) = (_shares(places, *pair) for pair in bounds)
    least = max(0.0, float((low_a - high_b).max()), float((low_b - high_a).max()))
    return Distance(least, float(np.maximum(high_a - low_b, high_b - low_a).max()))


def _lists_all(one: ColumnStatistics) -> bool:
    """Tells if all numbers are listed, none of which is infinite."""
    listed = sum(n for _, n in one.vocabulary or ())
    return bool(listed) and listed == one.count and not one.not_finite


def _is_whole(one: ColumnStatistics) -> bool:
    return isinstance(one.min, int)


def _are_apart(a: ColumnStatistics, b: ColumnStatistics) -> bool:
    """Tells if all finite values of one are below all of the other."""
    assert a.min is not None and a.max is not None and b.min is not None and b.max is not None
    return a.max < b.min or b.max < a.min


def _compute_rounding(one: ColumnStatistics) -> float:
    """Returns how far values of float32, or percentiles of whole numbers, may be from those in the
    raw data, if that is not little against how much they vary, as of 1e12 and a few more; 0 if it
    is."""
    if one.min is None or one.max is None or one.variance is None:
        return 0.0
    largest = max(abs(one.min), abs(one.max))
    if not _is_whole(one):
        step = coarse.step_of(largest)
    else:
        step = float(np.spacing(float(largest))) if largest > _EXACT else 0.0
    # Of a constant it is little as long as there are all whole numbers.
    little = coarse.COARSE * math.sqrt(one.variance) if one.variance else 1.0
    return step / 2 if step > little else 0.0


def _build_bounds(one: ColumnStatistics) -> tuple[np.ndarray, np.ndarray]:
    """Returns between which numbers each percentile really is: sketches cut towards zero, and
    float32 or float64 may have rounded."""
    known, whole = np.array(one.quantiles), _is_whole(one)
    size, bits = np.abs(known), _BITS_BEFORE if one.quantile_bits is None else one.quantile_bits
    # What numbers that share a bucket may differ by.
    width = np.where(size > 0, np.exp2(np.frexp(size)[1] - 1.0 - bits), 0.0)
    farthest = np.ceil(size + width) - (width > 0) if whole else size + width
    farthest = np.copysign(np.maximum(farthest, size), known)
    farthest[[0, -1]] = known[[0, -1]]
    ends = np.stack([known, farthest]).clip(known[0], known[-1])
    return ends.min(axis=0) - _compute_rounding(one), ends.max(axis=0) + _compute_rounding(one)


def _shares(places: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the least and the greatest share of values that may be up to each place."""
    least = np.searchsorted(high, places, side="right") - 1
    greatest = np.searchsorted(low, places, side="right")
    return least.clip(0) / 100, greatest.clip(0, 100) / 100


def compute_missing_share(one: ColumnStatistics, column: config.Column) -> float:
    """Returns the share of rows without a value."""
    return one.missing / max(1, one.missing + one.rows(column))


def compute_not_finite_share(one: ColumnStatistics) -> float:
    """Returns the share of values that are NaN or infinite."""
    return one.not_finite / max(1, one.count)


def bound_numbers_by_chance(n: int, m: int) -> float:
    """Returns what the statistic of Kolmogorov and Smirnov exceeds one time in a thousand, for so
    many values of one and the same distribution."""
    return min(1.0, _KOLMOGOROV * math.sqrt(1 / max(1, n) + 1 / max(1, m)))


def bound_categories_by_chance(n: int, m: int, totals: Sequence[int]) -> float:
    """Returns the same of the Jensen-Shannon distance, of values that occur `totals` times in both.

    Its square is taken for a multiple of chi-squared with the mean and variance that it has if each
    occurrence is one of the n or of the m by chance; the quantile is Wilson's and Hilferty's. To
    second order a frequent value adds (1/n + 1/m) / 8 ln 2 times chi-squared; rare ones less or
    more, by their binomial distribution.
    """
    if not n or not m:
        return 1.0
    mean = variance = 0.0
    for total, values in zip(*np.unique(np.array(totals), return_counts=True), strict=True):
        moments = (
            _compute_rare_moments(int(total), n, m)
            if total <= _RARE
            else _compute_frequent_moments(n, m)
        )
        mean, variance = mean + values * moments[0], variance + values * moments[1]
    # One count follows from the others.
    degrees = 2 * mean**2 / max(variance, 1e-300)
    kept = max(1.0, degrees - 1) / max(degrees, 1e-300)
    mean, degrees = mean * kept, max(1.0, degrees - 1)
    spread = 2 / (9 * degrees)
    return min(1.0, math.sqrt(mean * (1 - spread + _NORMAL * math.sqrt(spread)) ** 3))


def _compute_frequent_moments(n: int, m: int) -> tuple[float, float]:
    """Returns mean and variance of what a value adds to the square."""
    unit = (1 / n + 1 / m) / (8 * math.log(2))
    return unit, 2 * unit**2


def _compute_rare_moments(total: int, n: int, m: int) -> tuple[float, float]:
    """Returns the same of a value that occurs `total` times."""
    ones = np.arange(total + 1)
    logs = np.array([math.lgamma(k + 1) for k in range(total + 1)])
    share = n / (n + m)
    chance = np.exp(
        logs[-1] - logs - logs[::-1] + ones * math.log(share) + ones[::-1] * math.log(1 - share)
    )
    p, q = ones / n, ones[::-1] / m
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(x > 0, x * np.log2(x / middle), 0.0) for x in (p, q)]
    square = (terms[0] + terms[1]) / 2
    mean = float(chance @ square)
    return mean, float(chance @ (square - mean) ** 2)


def bound_missing_by_chance(*, share_a: float, n: int, share_b: float, m: int) -> float:
    """Returns the same of the change of a share, of so many rows."""
    pooled = (share_a * n + share_b * m) / max(1, n + m)
    return _TWO_SIDED * math.sqrt(pooled * (1 - pooled) * (1 / max(1, n) + 1 / max(1, m)))
