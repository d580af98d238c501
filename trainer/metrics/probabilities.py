"""Metrics of predicted probabilities of two classes, with 95 % confidence intervals.

Values are those of scikit-learn's `log_loss` and `average_precision_score` on the same predictions.
Intervals are those of `intervals.estimate_by_influence`.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from trainer.metrics import intervals
from trainer.metrics.intervals import MetricEstimate

# The metrics computed here.
NAMES = ("log_loss", "normalized_entropy", "calibration", "average_precision")


@dataclasses.dataclass(frozen=True)
class Scored:
    """Examples of two classes: `[examples]` each.

    `positive` is bool; `likelihood` the probability of the class that was observed, `probability`
    that of the positive one; `groups` numbers from 0 on, or `None` if examples are independent.
    """

    positive: np.ndarray
    probability: np.ndarray
    likelihood: np.ndarray
    groups: np.ndarray | None = None

    @functools.cached_property
    def rate(self) -> float:
        """The share of positives."""
        return float(np.mean(self.positive))

    @functools.cached_property
    def losses(self) -> np.ndarray:
        """The log loss of each example, in nats."""
        return compute_losses(self.likelihood)


def compute_losses(likelihood: np.ndarray) -> np.ndarray:
    """Returns the log loss of each example, in nats, by the probability of its label: clipped to
    what its type can tell from 0 and 1, as scikit-learn does, 1.2e-7 and 1 - 1.2e-7 for float32."""
    eps = np.finfo(likelihood.dtype).eps
    clipped = np.clip(likelihood, eps, 1 - eps)
    return np.asarray(-np.log(clipped.astype(np.float64)))


@dataclasses.dataclass(frozen=True)
class Influenced:
    """A metric, and the `[examples]` influence values that its interval comes from; `fewest` are
    the examples (or groups) of the label that has fewest, where it takes both. `is_loss` if it has
    no upper limit, so that `intervals.CARRIERS` must carry it."""

    value: float
    influence: np.ndarray
    scale: intervals.Scale
    fewest: int | None = None
    is_loss: bool = False

    def estimate(self, groups: np.ndarray | None) -> MetricEstimate:
        """Returns the metric with its interval."""
        return intervals.estimate_by_influence(
            self.value,
            self.influence,
            self.scale,
            groups=groups,
            fewest=self.fewest,
            carriers=intervals.CARRIERS if self.is_loss else 0,
        )


def log_loss(scored: Scored) -> Influenced:
    """Returns the mean log loss, in nats."""
    value = float(np.mean(scored.losses))
    return Influenced(value, scored.losses - value, intervals.LOG, is_loss=True)


def entropy(rate: float, guess: float) -> float:
    """Returns the log loss of always saying `guess` where a share `rate` is positive, in nats."""
    pairs = ((rate, guess), (1 - rate, 1 - guess))
    terms = [-share * math.log(said) if said else math.inf for share, said in pairs if share]
    return abs(math.fsum(terms))  # not -0


def normalized_entropy(scored: Scored) -> Influenced | None:
    """Returns the log loss over that of always saying the share of positives (He et al., Practical
    lessons from predicting clicks on ads, 2014): below 1 is better than that. `None` if all
    examples are of one class."""
    rate = scored.rate
    if not 0 < rate < 1:
        return None
    least, loss = entropy(rate, rate), float(np.mean(scored.losses))
    slope = math.log((1 - rate) / rate)
    influence = (scored.losses - loss - loss / least * slope * (scored.positive - rate)) / least
    return Influenced(loss / least, influence, intervals.LOG, is_loss=True)


def calibration(scored: Scored) -> Influenced | None:
    """Returns the mean predicted probability over the share of positives; `None` if there is no
    positive example."""
    rate = scored.rate
    probability = scored.probability.astype(np.float64)
    mean = float(np.mean(probability))
    if not rate or not mean:
        return None
    value = mean / rate
    influence = value * ((probability - mean) / mean - (scored.positive - rate) / rate)
    fewest = intervals.count_units(scored.groups, scored.positive)
    return Influenced(value, influence, intervals.LOG, fewest)


def average_precision(scored: Scored) -> Influenced | None:
    """Returns the mean of the precision at each positive example; `None` if all examples are of one
    class."""
    count, positives = len(scored.positive), int(np.count_nonzero(scored.positive))
    if positives in (0, count):
        return None
    _, place = np.unique(scored.probability, return_inverse=True)
    # In whole numbers, by which a perfect order has exactly 1.
    here = np.bincount(place, scored.positive)
    called = np.cumsum(np.bincount(place)[::-1])[::-1]
    precision = np.cumsum(here[::-1])[::-1] / called
    unknown = bool(np.isnan(scored.probability).any())
    value = math.nan if unknown else min(1.0, float(np.sum(here * precision)) / positives)
    of = (scored.positive, ~scored.positive)
    fewest = min(intervals.count_units(scored.groups, one) for one in of)
    # Of an example: its own precision, if positive, and what it does to that of lower positives.
    gain = (precision + np.cumsum(here / called) - value)[place] * scored.positive
    cost = np.cumsum(here * precision / called)[place]
    return Influenced(value, (gain - cost) / scored.rate, intervals.LOGIT, fewest)


def compute_influences(scored: Scored) -> dict[str, Influenced]:
    """Returns the metrics that are defined, by name, without their intervals."""
    computed = (f(scored) for f in (log_loss, normalized_entropy, calibration, average_precision))
    return {name: one for name, one in zip(NAMES, computed, strict=True) if one is not None}


def _estimate(name: str, one: Influenced, scored: Scored) -> MetricEstimate:
    if name == "average_precision" and one.value == 1:
        units = intervals.count_units(scored.groups, scored.positive)
        every = intervals.count_units(scored.groups, np.ones(len(scored.positive), bool))
        examples = None if scored.groups is None else len(scored.positive)
        told = intervals.describe_units(every, one.fewest, examples=examples)
        few = one.fewest is not None and one.fewest < intervals.FEW
        return MetricEstimate(1.0, intervals.wilson(units, units).low, 1.0, few, units=told)
    found = one.estimate(scored.groups)
    if name == "normalized_entropy" and intervals.are_alike(scored.losses):
        return intervals.remove_interval(found)  # the labels vary, the losses do not
    return found


def compute_metrics(
    scored: Scored, rate: float
) -> tuple[dict[str, MetricEstimate], dict[str, float]]:
    """Returns metrics by name, and those of always saying `rate`, the share of positives of the
    whole split."""
    least, loss = entropy(scored.rate, scored.rate), entropy(scored.rate, rate)
    baselines = (loss, loss / (least or math.inf), rate / (scored.rate or math.inf), scored.rate)
    simple = dict(zip(NAMES, baselines, strict=True))
    found = compute_influences(scored)
    return (
        {name: _estimate(name, one, scored) for name, one in found.items()},
        {name: simple[name] for name in found},
    )
