"""How much better one model is than another on the same records, with 95 % intervals.

Both models predict every record, so what is hard about a record cancels out: these intervals are
narrower than the difference of two intervals. None of them draws samples; each has a closed form.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pipeline.models.base import metrics_of_groups
from trainer.metrics import groups as of_groups
from trainer.metrics import intervals, probabilities
from trainer.metrics.class_metrics import Answers
from trainer.metrics.groups import Ranked
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.probabilities import Scored

# Metrics of which less is better; `calibration` is best at 1, all others are best when large.
_LOWER_IS_BETTER = (
    "log_loss",
    "normalized_entropy",
    "mean_absolute_error",
    "rmse",
    "mean_squared_error",
)
_NO_DIRECTION = ("calibration",)
# More must carry a difference than a figure: its long tail may be on either side, and one that was
# not seen on the other side turns a verdict.
_CARRIERS = 2 * intervals.CARRIERS
UNDECIDED = "undecided"
# Names by which models report what has another name here.
_SYNONYMS = {"loss": ("log_loss", "mean_squared_error"), "average_loss": ("mean_squared_error",)}


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of both models; `change` is that of B minus that of A."""

    a: float
    b: float
    change: MetricEstimate

    def verdict(self, higher_is_better: bool | None) -> str:
        """Returns `better` or `worse` if B certainly is, `different` if it certainly is but neither
        direction is better, `undecided` if it would be but few records carry the difference,
        otherwise an empty string."""
        if self.change.few or self.change.low <= 0 <= self.change.high:
            return ""
        if self.change.few_carry:
            return UNDECIDED
        if higher_is_better is None:
            return "different"
        return "better" if (self.change.value > 0) == higher_is_better else "worse"


def higher_is_better(metric: str) -> bool | None:
    """Returns whether more of a metric is better; `None` if neither is."""
    return None if metric in _NO_DIRECTION else metric not in _LOWER_IS_BETTER


def find_metric(metric: str, known: object) -> str | None:
    """Returns the name that `eval.metric` has among the `known` metrics, or `None`."""
    assert isinstance(known, dict | list | tuple | set)
    return next((name for name in (metric, *_SYNONYMS.get(metric, ())) if name in known), None)


def list_probability_metrics(answers: Answers, top: int) -> tuple[str, ...]:
    """Returns what `compare_classifiers` has of two classes, if there are enough records for it."""
    if answers.probability is None:
        return ()
    grouped = () if answers.groups is None else metrics_of_groups(top)
    return ("auc", *probabilities.NAMES, *grouped)


def compare_classifiers(a: Answers, b: Answers, top: int) -> dict[str, Difference]:
    """Returns the metrics of two classifiers on the same records, in the same order; `top` is the k
    of those by group. Metrics that are not defined on these records are left out."""
    units = a.units
    found = {"accuracy": _compare_accuracy(a.classes == a.labels, b.classes == b.labels, units)}
    if a.likelihood is None or b.likelihood is None:
        return found
    one, other = (
        Scored(
            x.labels == 1,
            x.likelihood if x.probability is None else x.probability,
            x.likelihood,
            units,
        )
        for x in (a, b)
        if x.likelihood is not None
    )
    if a.probability is None or b.probability is None:  # of more than two classes
        found["log_loss"] = _compare_errors(one.losses, other.losses, units)
        return found
    area = compare_areas_under_roc(a.labels, a.probability, b.probability, groups=units)
    if area is not None:
        found["auc"] = area
    ours, theirs = probabilities.compute_influences(one), probabilities.compute_influences(other)
    for name in (name for name in ours if name in theirs):
        first, second = ours[name], theirs[name]
        found[name] = _estimate_by_influence(
            first.value,
            second.value,
            second.influence - first.influence,
            groups=units,
            fewest=first.fewest,
            carriers=_CARRIERS if first.is_loss else 0,
        )
    return found | _compare_by_group(a, b, top)


def compare_regressors(
    labels: np.ndarray, a: np.ndarray, b: np.ndarray, *, groups: np.ndarray | None = None
) -> dict[str, Difference]:
    """Returns the metrics of two regressors: `[records]` labels and predictions."""
    one, other = a.astype(float) - labels, b.astype(float) - labels
    squares = _compare_errors(np.square(one), np.square(other), groups)
    return {
        "mean_absolute_error": _compare_errors(np.abs(one), np.abs(other), groups),
        "rmse": _take_roots(squares),
        "mean_squared_error": squares,
    }


def _take_roots(squares: Difference) -> Difference:
    """Returns the difference of the roots of both metrics, with the verdict of `squares`: what a
    change of the metrics, or of an end of its interval, does to the root of the smaller one."""
    a, b, change = math.sqrt(squares.a), math.sqrt(squares.b), squares.change
    least = min(squares.a, squares.b)

    def change_root(x: float) -> float:
        return math.copysign(math.sqrt(least + abs(x)) - math.sqrt(least), x)

    value, low, high = map(change_root, (change.value, change.low, change.high))
    return Difference(a, b, dataclasses.replace(change, value=value, low=low, high=high))


def _estimate_by_influence(
    a: float,
    b: float,
    influence: np.ndarray,
    *,
    groups: np.ndarray | None,
    weights: np.ndarray | None = None,
    fewest: int | None = None,
    carriers: int = 0,
) -> Difference:
    # A difference is not bounded as its two metrics are: its interval is symmetric.
    change = intervals.estimate_by_influence(
        b - a,
        influence,
        intervals.PLAIN,
        groups=groups,
        weights=weights,
        fewest=fewest,
        carriers=carriers,
    )
    return Difference(a, b, change)


def _compare_errors(a: np.ndarray, b: np.ndarray, groups: np.ndarray | None) -> Difference:
    """Returns the difference of the means of errors, which may be of any size."""
    return _compare_means(a, b, groups, carriers=_CARRIERS)


def _compare_means(
    a: np.ndarray, b: np.ndarray, groups: np.ndarray | None, *, carriers: int = 0
) -> Difference:
    """Student's t of the differences, as in scipy's `ttest_rel`; wider where they are skewed."""
    change = b - a
    return _estimate_by_influence(
        float(np.mean(a)),
        float(np.mean(b)),
        change - np.mean(change),
        groups=groups,
        carriers=carriers,
    )


def _compare_accuracy(a: np.ndarray, b: np.ndarray, groups: np.ndarray | None) -> Difference:
    one, other = intervals.wilson(_count(a), len(a)), intervals.wilson(_count(b), len(b))
    pairs = {
        "both": _count(a & b),
        "only_a": _count(a & ~b),
        "only_b": _count(~a & b),
        "neither": _count(~a & ~b),
    }
    change = newcombe(**pairs)
    if groups is not None:
        clustered = _compare_means(a.astype(float), b.astype(float), groups).change
        if clustered.low == clustered.high:
            # Nothing tells how alike records of a group are: each group counts once.
            units = len(np.unique(groups))
            change = newcombe(**{name: round(n * units / len(a)) for name, n in pairs.items()})
        change = intervals.widen(change, clustered)
    return Difference(one.value, other.value, change)


def newcombe(*, both: int, only_a: int, only_b: int, neither: int) -> MetricEstimate:
    """Returns the share of B minus that of A from the four counts of pairs, with its interval by
    Newcombe (1998, Improved confidence intervals for the difference between binomial proportions
    based on paired data, method 10)."""
    n = both + only_a + only_b + neither
    a, b = intervals.wilson(both + only_a, n), intervals.wilson(both + only_b, n)
    margins = [both + only_a, only_b + neither, both + only_b, only_a + neither]
    product = math.prod(margins)
    excess = float(both * neither - only_a * only_b)
    excess = max(excess - n / 2, 0.0) if excess > 0 else excess
    together = excess / math.sqrt(product) if product else 0.0
    value = (only_b - only_a) / n if n else 0.0

    def half(up: float, down: float) -> float:
        return math.sqrt(max(0.0, up**2 - 2 * together * up * down + down**2))

    low = value - half(b.value - b.low, a.high - a.value)
    high = value + half(b.high - b.value, a.value - a.low)
    few, told = n < intervals.FEW, intervals.describe_units(n)
    return MetricEstimate(value, max(-1.0, low), min(1.0, high), few, units=told)


def compare_areas_under_roc(
    labels: np.ndarray, a: np.ndarray, b: np.ndarray, *, groups: np.ndarray | None = None
) -> Difference | None:
    """Returns the areas under two ROCs of the same records, and DeLong's interval (1988) of their
    difference. `labels` is `[records]` of 0 and 1. `None` if only one label is there."""
    positive = labels == 1
    counts = _count(positive), len(labels) - _count(positive)
    if not all(counts):
        return None
    # How often each positive record is above the negative ones, and each negative one below.
    pairs = []
    for scores in (a, b):
        of_positive, of_negative = scores[positive], scores[~positive]
        above = intervals.compute_share_below(of_positive, of_negative)
        pairs.append((above, 1 - intervals.compute_share_below(of_negative, of_positive)))
    areas = [float(np.mean(above)) for above, _ in pairs]
    changes = [pairs[1][n] - pairs[0][n] for n in (0, 1)]
    fewest = min(intervals.count_units(groups, of) for of in (positive, ~positive))
    every = intervals.count_units(groups, np.ones(len(labels), bool))
    told = intervals.describe_units(every, fewest, examples=None if groups is None else len(labels))
    value = areas[1] - areas[0]
    if min(counts) < 2:
        alone = MetricEstimate(value, value, value, few=True, units=told)
        return Difference(areas[0], areas[1], alone)
    spread = intervals.compute_half_width(*changes)
    few = fewest < intervals.FEW
    found = intervals.mark_if_alike(
        MetricEstimate(value, value - spread, value + spread, few, units=told)
    )
    if groups is not None:
        influence = np.empty(len(labels))
        influence[positive] = (changes[0] - value) * len(labels) / counts[0]
        influence[~positive] = (changes[1] - value) * len(labels) / counts[1]
        clustered = intervals.estimate_by_influence(
            value, influence, intervals.PLAIN, groups=groups, fewest=fewest
        )
        found = intervals.widen(found, clustered)
    return Difference(areas[0], areas[1], found)


def _compare_by_group(a: Answers, b: Answers, top: int) -> dict[str, Difference]:
    if a.groups is None or a.probability is None or b.probability is None:
        return {}
    one, other = (_rank(a.groups, x, top) for x in (a, b))
    if not len(one.sizes):
        return {}
    plain = np.ones(len(one.sizes))
    values = [
        (one.area, other.area, one.sizes / np.mean(one.sizes)),
        (one.ndcg, other.ndcg, plain),
        (one.reciprocal_rank, other.reciprocal_rank, plain),
        (one.hit, other.hit, plain),
    ]
    found, told = {}, of_groups.describe(one)
    for name, (x, y, weights) in zip(metrics_of_groups(top), values, strict=True):
        mean_x, mean_y = float(np.mean(x * weights)), float(np.mean(y * weights))
        influence = weights * ((y - x) - (mean_y - mean_x))
        each = _estimate_by_influence(mean_x, mean_y, influence, groups=None, weights=weights)
        found[name] = dataclasses.replace(each, change=dataclasses.replace(each.change, units=told))
    return found


def _rank(groups: np.ndarray, of: Answers, top: int) -> Ranked:
    assert of.probability is not None
    return of_groups.rank(groups, of.labels == 1, of.probability, top=top)


def _count(values: np.ndarray) -> int:
    return int(np.count_nonzero(values))
