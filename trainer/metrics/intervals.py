"""How well a model does on some examples, with 95 % confidence intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from pipeline.console import figures

_Z = 1.959963984540054  # of 95 %, two-sided


# Below so many examples (of each label, for an area) an interval says little more than that.
FEW = figures.FEW
# Relative to a figure: what float32 does not tell apart is rounding.
_NO_WIDTH = 1e-6
# What is taken for independent.
RECORDS, GROUPS = "records", "groups"


@dataclasses.dataclass(frozen=True)
class MetricEstimate:
    """A figure, and the interval it is in with 95 % confidence if examples are independent; `few`
    if there are too few of them to say anything by it, also if enough examples are all `alike`:
    what others would add is unknown then, and `low` and `high` are the figure. `few_carry` if few
    of enough examples make up most of its variance: the interval may then be too narrow. `units` is
    what is independent and how many there are, such as `groups: 4 of one label`."""

    value: float
    low: float
    high: float
    few: bool = False
    alike: bool = False
    few_carry: bool = False
    units: str = RECORDS


# On what scale an interval is computed, so that it stays in the range of its metric: the slope of
# the transform at a value, the value that is a step of the transform away from it, and the range.
Scale = tuple[Callable[[float], float], Callable[[float, float], float], tuple[float, float]]
LOG: Scale = (lambda x: 1 / x, lambda x, step: x * math.exp(min(step, 700.0)), (0.0, math.inf))
LOGIT: Scale = (
    lambda x: 1 / (x * (1 - x)),
    lambda x, step: _logistic(math.log(x / (1 - x)) + step),
    (0.0, 1.0),
)
# Of what may be below zero.
PLAIN: Scale = (lambda x: 1.0, lambda x, step: x + step, (-math.inf, math.inf))
# So many must carry an unbounded mean, at least: see `_do_few_carry`. Without limits of values no
# formula is right for fewer, because larger ones that were not seen would change it.
CARRIERS = 10
# Of normal values a third carry their mean, whatever their number: that few do is sure below this.
_CARRYING_SHARE = 1 / 6
# A mean of n values is about normal if n is at least so many times their squared skewness (Sugden,
# Smith and Jones, Cochran's rule for simple random sampling, 2000).
_NORMAL_FROM = 28


def estimate_by_influence(
    value: float,
    influence: np.ndarray,
    scale: Scale,
    *,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    fewest: int | None = None,
    carriers: int = 0,
) -> MetricEstimate:
    """Returns `value` with its interval by the delta method, and Student's t.

    An estimate differs from the truth by about the mean of its `[examples]` influence values
    (Hampel, The influence curve, 1974). With `groups`, numbers from 0 on, examples of a group are
    not independent: it is the sums by group that vary. `fewest` are the examples, or groups, of the
    label that has fewest, if that matters.

    A group with a large share of the examples, or an example with a large part of the `weights`,
    draws the estimate to itself, which makes what is left of its influence too small: it is divided
    by the rest, as in the jackknife. The points of t are those of the effective number of units
    (Kish, Survey sampling, 1965): as many of equal size would vary as much.

    If few units make up most of the influence of a metric without an upper limit, so that the
    estimate is not about normal, the interval covers Hall's too, whose ends are further from the
    value on the side of these. Between two limits the logit follows the skewness already.
    `few_carry` tells of an estimate that has no limits if it is carried by fewer than `carriers`.
    """
    sums, shares = influence, np.full(len(influence), 1 / max(1, len(influence)))
    if weights is not None:
        shares = weights / np.sum(weights)
    if groups is not None:
        sizes = np.bincount(groups, minlength=1)
        sums = np.bincount(groups, influence, len(sizes))[sizes > 0]
        shares = sizes[sizes > 0] / len(groups)
    units = len(sums)
    told = describe_units(units, fewest, examples=None if groups is None else len(groups))
    if units < 2 or not math.isfinite(value):
        return MetricEstimate(value, value, value, few=True, units=told)
    slope, step_from, (least, most) = scale
    point = student_t(1 / float(np.sum(np.square(shares))) - 1)
    left = sums / (1 - shares)
    error = math.sqrt((units - 1) / units * float(np.sum(np.square(left)))) / len(influence)
    step = point * error * slope(value)
    low, high = step_from(value, -step), step_from(value, step)
    if math.isinf(most):
        down, up = _compute_skewed_points(left, point)
        high = max(high, value + up * error)
        if value - down * error > least:
            low = min(low, value - down * error)
    few = min(units, units if fewest is None else fewest) < FEW
    few_carry = not few and _do_few_carry(left, carriers)
    return mark_if_alike(MetricEstimate(value, low, high, few, few_carry=few_carry, units=told))


def _do_few_carry(influence: np.ndarray, carriers: int) -> bool:
    """Tells if fewer than `carriers` units make up most of a variance: the effective number of
    their squared influence values, as of weights (Kish), which is theirs over the kurtosis."""
    squares = np.square(influence)
    total = float(np.sum(squares))
    effective = total**2 / float(np.sum(np.square(squares))) if total else math.inf
    return effective < min(carriers, _CARRYING_SHARE * len(influence))


def _compute_skewed_points(influence: np.ndarray, point: float) -> tuple[float, float]:
    """Returns how many standard errors the ends of an interval are below and above its value, from
    the `point` of a normal estimate: those of Hall (On the removal of skewness by transformation,
    1992), whose cubic transform of Student's t has no skewness."""
    squares = float(np.sum(np.square(influence)))
    # Of the mean: that of the values is larger by the root of their number.
    skewness = float(np.sum(influence**3)) / squares**1.5 if squares else 0.0
    if _NORMAL_FROM * skewness**2 <= 1:
        return point, point
    slope, shift = skewness / 3, skewness / 6

    def transform_back(x: float) -> float:
        return (float(np.cbrt(1 + 3 * slope * (x - shift))) - 1) / slope

    return transform_back(point), -transform_back(-point)


def describe_units(
    units: int, fewest: int | None = None, *, examples: int | None = None, which: str = ""
) -> str:
    """Returns `MetricEstimate.units`, of groups if their `examples` are given: those of the label
    with the `fewest` if these alone are too few."""
    if fewest is not None and fewest < FEW <= units:
        units, which = fewest, " of one label"
    if examples is None:
        return f"{RECORDS}: {units:,}{which}"
    return f"{GROUPS}: {units:,}{which}, of {examples:,} {RECORDS}"


def mark_if_alike(found: MetricEstimate) -> MetricEstimate:
    """Returns an estimate whose interval has no width as one of examples that are all alike. That
    those seen do not vary, whose variance was estimated, is no proof that others do not."""
    return (
        found if found.high - found.low > _NO_WIDTH * abs(found.value) else remove_interval(found)
    )


def remove_interval(found: MetricEstimate) -> MetricEstimate:
    """Returns an estimate without an interval, of examples that are all alike."""
    alike = (found.alike or not found.few) and math.isfinite(found.value)
    value = found.value
    return MetricEstimate(value, value, value, few=True, alike=alike, units=found.units)


def are_alike(values: np.ndarray) -> bool:
    """Tells if values, `[examples]`, differ by rounding only."""
    return bool(np.ptp(values) <= _NO_WIDTH * np.max(np.abs(values)))


def widen(one: MetricEstimate, other: MetricEstimate) -> MetricEstimate:
    """Returns `one` with an interval that covers that of `other` too, and the units of that."""
    low, high = min(one.low, other.low), max(one.high, other.high)
    few = any(each.few and not each.alike for each in (one, other))
    return mark_if_alike(MetricEstimate(one.value, low, high, few, units=other.units))


def count_units(groups: np.ndarray | None, chosen: np.ndarray) -> int:
    """Returns how many groups the `chosen` examples, a mask, are of: without groups, how many
    examples they are."""
    return int(np.count_nonzero(chosen)) if groups is None else len(np.unique(groups[chosen]))


def estimate_share(hits: np.ndarray, groups: np.ndarray | None = None) -> MetricEstimate:
    """Returns the share of true `hits`, `[examples]` bool, with Wilson's interval (1927), or that
    of `estimate_by_influence` if its `groups` make that wider. Where all hits are alike,
    nothing tells how alike examples of a group are: each group then counts once."""
    found = wilson(int(np.count_nonzero(hits)), len(hits))
    if groups is None:
        return found
    if not 0 < found.value < 1:
        units = len(np.unique(groups))
        return wilson(round(found.value) * units, units, examples=len(hits))
    return widen(
        found, estimate_by_influence(found.value, hits - found.value, LOGIT, groups=groups)
    )


def wilson(hits: int, n: int, *, examples: int | None = None) -> MetricEstimate:
    """Returns the share of `hits` among `n`, with Wilson's interval (1927); with `n` = 0 it is
    unknown: 1, from 0 to 1. They are groups if their `examples` are given."""
    if not n:
        return MetricEstimate(1.0, 0.0, 1.0, few=True, units=describe_units(0, examples=examples))
    p = hits / n
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    low, high = max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))
    return MetricEstimate(p, low, high, n < FEW, units=describe_units(n, examples=examples))


def estimate_fraction(
    values: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> MetricEstimate:
    """Returns the mean of `[examples]` values from 0 to 1, with its interval: Wilson's, if all are
    0 or 1 and count alike."""
    if weights is None and bool(np.all((values == 0) | (values == 1))):
        return estimate_share(values == 1, groups)
    share_of = None if weights is None else weights / np.mean(weights)
    value = float(np.mean(values if share_of is None else values * share_of))
    if value <= 0 or value >= 1:
        # All alike: as sure as a share.
        units = count_units(groups, np.ones(len(values), bool))
        return wilson(round(value * units), units, examples=None if groups is None else len(values))
    influence = (values - value) * (1.0 if share_of is None else share_of)
    return estimate_by_influence(value, influence, LOGIT, groups=groups, weights=share_of)


def estimate_mean(values: np.ndarray) -> MetricEstimate:
    """Returns the mean of `[examples]` values that are 0 or more, with the interval of its
    logarithm by the delta method, so that it ends above zero; one example has none, nor have
    examples that are all alike."""
    n, value = len(values), float(np.mean(values))
    if not value:
        return mark_if_alike(MetricEstimate(value, value, value, n < FEW, units=describe_units(n)))
    return estimate_by_influence(value, values - value, LOG, carriers=CARRIERS)


def estimate_plain_mean(values: np.ndarray) -> MetricEstimate:
    """Returns the mean of `[examples]` values of any sign, with its interval."""
    value = float(np.mean(values))
    return estimate_by_influence(value, values - value, PLAIN)


def student_t(freedom: float) -> float:
    """Returns the 97.5 % point of Student's t, by its expansion (Abramowitz and Stegun, 26.7.5);
    below three degrees of freedom, where that is too small, the point of the whole number below."""
    if freedom < 3:
        return 12.7062 if freedom < 2 else 4.3027
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def compute_half_width(*samples: np.ndarray) -> float:
    """Returns half the width of the interval of a sum or difference of the means of independent
    samples, each of two or more: by the t of Welch (1947)."""
    parts = [(float(np.var(one, ddof=1)) / len(one), len(one) - 1) for one in samples]
    variance = sum(part for part, _ in parts)
    if not variance:
        return 0.0
    return student_t(variance**2 / sum(part**2 / n for part, n in parts)) * math.sqrt(variance)


def estimate_root_mean_square(values: np.ndarray) -> MetricEstimate:
    """Returns the root of the mean square, with the roots of the ends of its interval."""
    square = estimate_mean(np.square(values))
    low, value, high = (math.sqrt(x) for x in (square.low, square.value, square.high))
    return dataclasses.replace(square, value=value, low=low, high=high)


def estimate_area_under_roc(
    labels: np.ndarray, scores: np.ndarray, groups: np.ndarray | None = None
) -> MetricEstimate | None:
    """Returns how likely a positive example scores above a negative one, ties counting half.

    `labels` is `[examples]` of 0 and 1. The interval covers two: that of Newcombe (2006, method 5),
    which holds its promise for few examples and for areas near 1, and DeLong's (1988), of the
    logit, which follows how the scores really lie, and with `groups` that of
    `estimate_by_influence` too. Of an area of 0 or 1 only Newcombe's has a width, in which each
    group then counts once.
    `None` if only one label is there.
    """
    of_positive, of_negative = scores[labels == 1], scores[labels != 1]
    counts = len(of_positive), len(of_negative)
    if not all(counts):
        return None
    units = count_units(groups, labels == 1), count_units(groups, labels != 1)
    # How often each positive example is above the negative ones, and each negative one below.
    above, below = (
        compute_share_below(of_positive, of_negative),
        1 - compute_share_below(of_negative, of_positive),
    )
    area = float(np.mean(above))
    low, high = _newcombe(area, *(counts if 0 < area < 1 else units))
    if min(counts) > 1 and 0 < area < 1:
        half = compute_half_width(above, below) / (area * (1 - area))
        middle = math.log(area / (1 - area))
        low, high = min(low, _logistic(middle - half)), max(high, _logistic(middle + half))
    every = count_units(groups, np.ones(len(labels), bool))
    told = describe_units(every, min(units), examples=None if groups is None else len(labels))
    found = MetricEstimate(area, low, high, min(units) < FEW, units=told)
    if groups is None or not 0 < area < 1:
        return found
    influence = np.empty(len(labels))
    influence[labels == 1] = (above - area) * len(labels) / counts[0]
    influence[labels != 1] = (below - area) * len(labels) / counts[1]
    clustered = estimate_by_influence(area, influence, LOGIT, groups=groups, fewest=min(units))
    return widen(found, clustered)


def narrow(found: MetricEstimate, every: int, value: float) -> MetricEstimate:
    """Returns the interval of a figure of all examples, `value`, from the estimate of every n-th of
    them: by the root of n narrower."""
    by, value = math.sqrt(every), float(value)
    low, high = value - (found.value - found.low) / by, value + (found.high - found.value) / by
    return dataclasses.replace(found, value=value, low=low, high=high)


def compute_share_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
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
