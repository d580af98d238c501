"""Metrics of models that name classes, over some of the records of a split, with a baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pipeline.models.base import metrics_of_groups
from trainer.metrics import groups as of_groups
from trainer.metrics import intervals, notes, probabilities
from trainer.metrics.groups import GroupCounts, Ranked
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.probabilities import Scored

# The metrics by name, and those of a model that always predicts the same.
Metrics = tuple[dict[str, MetricEstimate], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model said of records, `[records]` each.

    `likelihood` is the probability of the label; of two classes `probability` is that of the
    second. `groups` are whole numbers from 0 on, below 0 for records that are in none. What there
    is not is `None`.
    """

    labels: np.ndarray
    classes: np.ndarray
    probability: np.ndarray | None = None
    likelihood: np.ndarray | None = None
    groups: np.ndarray | None = None

    def select(self, chosen: np.ndarray) -> Answers:
        """Returns those of the records of a mask, `[records]` bool."""
        arrays: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        parts: Any = {n: None if x is None else x[chosen] for n, x in arrays.items()}
        return Answers(**parts)

    @property
    def units(self) -> np.ndarray | None:
        """Numbers of what is independent: groups, and records that are in none."""
        if self.groups is None:
            return None
        alone = self.groups.max(initial=0) + 1 + np.arange(len(self.groups))
        return np.where(self.groups < 0, alone, self.groups)


def number_groups(ids: np.ndarray, missing: int) -> np.ndarray:
    """Returns the numbers of groups by any ids, `[records]` int64; -1 where they are `missing`."""
    _, numbers = np.unique(ids, return_inverse=True)
    return np.where(ids == missing, -1, numbers)


def build_mask_metrics(split: Answers, top: int) -> Callable[[np.ndarray], Metrics]:
    """Returns a function from a mask of the split's records to their metrics. The baseline says the
    most frequent label, or the share of each label, of the split; `top` is the k of groups."""
    distinct, counts = np.unique(split.labels, return_counts=True)
    frequent, shares = distinct[np.argmax(counts)], counts / len(split.labels)
    rate = float(np.mean(split.labels == 1))

    def compute_metrics(chosen: np.ndarray) -> Metrics:
        here = split.select(chosen)
        units, labels = here.units, here.labels
        found = {"accuracy": intervals.estimate_share(here.classes == labels, units)}
        baseline = {"accuracy": float(np.mean(labels == frequent))}
        if here.likelihood is None:
            return found, baseline
        if here.probability is None:
            found["log_loss"] = intervals.estimate_mean(
                probabilities.compute_losses(here.likelihood)
            )
            said = shares[np.searchsorted(distinct, labels)]
            baseline["log_loss"] = float(np.mean(-np.log(said)))
            return found, baseline
        area = intervals.estimate_area_under_roc(labels, here.probability, units)
        if area:
            found["auc"], baseline["auc"] = area, 0.5  # of a model that scores all alike
        scored = Scored(labels == 1, here.probability, here.likelihood, units)
        for more, simple in (
            probabilities.compute_metrics(scored, rate),
            _compute_group_metrics(here, top),
        ):
            found, baseline = found | more, baseline | simple
        return found, baseline

    return compute_metrics


def list_reported_metrics(
    split: Answers, found: Mapping[str, MetricEstimate]
) -> dict[str, MetricEstimate]:
    """Returns by the names that models report the metrics `found` of all records of a split, and
    those that models have besides."""
    more = {"average_loss": found["log_loss"]} if "log_loss" in found else {}
    probability, units = split.probability, split.units
    if probability is None:
        return {**found, **more}
    positive, called = split.labels == 1, split.classes == 1
    rate = intervals.estimate_share(positive, units)
    return {
        **found,
        **more,
        "label/mean": rate,
        "accuracy_baseline": max(
            rate, intervals.estimate_share(~positive, units), key=lambda one: one.value
        ),
        "prediction/mean": intervals.estimate_fraction(
            np.clip(probability, 0, 1).astype(float), groups=units
        ),
        "precision": intervals.estimate_share(
            positive[called], None if units is None else units[called]
        ),
        "recall": intervals.estimate_share(
            called[positive], None if units is None else units[positive]
        ),
    }


def _compute_group_metrics(here: Answers, top: int) -> Metrics:
    if here.groups is None:
        return {}, {}
    found = of_groups.compute_metrics(_rank(here, here.probability, top), top)
    # Equal scores count as every order: this is what an order by chance has.
    chance = of_groups.compute_metrics(_rank(here, np.zeros(len(here.labels)), top), top)
    return found, {name: one.value for name, one in chance.items()}


def _rank(here: Answers, scores: Any, top: int) -> Ranked:
    assert here.groups is not None
    return of_groups.rank(here.groups, here.labels == 1, scores, top=top)


def explain(
    split: Answers,
    slices: Iterable[tuple[str, Mapping[str, MetricEstimate]]],
    group: str | None,
    *,
    top: int,
) -> Iterator[str]:
    """Yields what a reader must know of the metrics of `slices`: which are not defined there, and
    the groups of the split by the column `group`."""
    if split.probability is None:
        return
    slices = list(slices)
    yield from notes.describe_undefined(slices, ("auc", *probabilities.NAMES))
    if group is not None:
        counts: GroupCounts = _rank(split, split.probability, top).counts
        yield from notes.describe_groups(counts, group, top)
        parts = slices[1:] if not counts.usable else slices
        yield from notes.describe_undefined(
            parts, metrics_of_groups(top), "No group with both labels is in"
        )
