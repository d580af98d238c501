"""Metrics by group while training: one pass of an evaluation, its predictions kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import errors
from pipeline.models.base import metrics_of_groups
from trainer.input import grouping
from trainer.metrics import class_metrics, groups, notes

# A collection of a graph, of its collectors. Not named by a text, which would have it written with
# the graph (`Graph.get_all_collection_keys`).
_COLLECTORS = (__name__,)


class Collector:
    """The predictions of one evaluation, batch by batch."""

    def __init__(self, column: str, top: int) -> None:
        """Groups are by the column `column`; `top` is the k of their metrics."""
        self._column, self._top = column, top
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._ranked: groups.Ranked | None = None

    def add(self, ids: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Adds `[batch]` ids of groups, labels and scores; returns how many batches there are."""
        self._batches.append((ids, labels == 1, scores))
        self._ranked = None
        return np.array(len(self._batches), np.int64)

    def compute_values(self) -> np.ndarray:
        """Returns the metrics in the order of `metrics_of_groups`, `[4]`: NaN if no group has both
        labels."""
        found = groups.compute_metrics(self._rank(), self._top)
        names = metrics_of_groups(self._top)
        return np.array([found[n].value if found else np.nan for n in names], np.float64)

    def find_problem(self) -> str | None:
        """Returns why the metrics are not defined, `None` if they are."""
        counts = self._rank().counts
        if counts.usable:
            return None
        return " ".join(notes.describe_groups(counts, self._column, self._top))

    def _rank(self) -> groups.Ranked:
        if self._ranked is None:
            ids, positive, scores = map(np.concatenate, zip(*self._batches, strict=True))
            of_column = class_metrics.number_groups(ids, grouping.MISSING)
            self._ranked = groups.rank(of_column, positive, scores, top=self._top)
        return self._ranked


class UndefinedHook(tf.compat.v1.train.SessionRunHook):
    """Reports why the metrics of groups are not defined in an evaluation, if they are not."""

    def __init__(self, split: str, report: Callable[[str], None]) -> None:
        self._split, self._report = split, report
        self._collectors: list[Collector] = []

    def begin(self) -> None:
        """Finds what collects the predictions."""
        self._collectors = tf.compat.v1.get_collection(_COLLECTORS)

    def end(self, session: Any) -> None:
        """Reports, after all batches."""
        for collector in self._collectors:
            if problem := collector.find_problem():
                self._report(f"split {self._split}: {problem}")


def add_group_metrics(
    spec: Any,
    ids: tf.Tensor,
    labels: tf.Tensor,
    *,
    column: str,
    top: int,
    label: str = "",
    there: tf.Tensor | None = None,
) -> Any:
    """Returns the `EstimatorSpec` of an evaluation with the metrics of groups, `[batch]` ids. Of
    several labels they are of the `label`, where it is `there`, `[batch]` bool.

    Raises `UsageError` if its predictions have no probabilities of two classes.
    """
    given = spec.predictions if isinstance(spec.predictions, Mapping) else {}
    prefix = f"{label}/" if label else ""
    probabilities = given.get(f"{prefix}probabilities")
    if probabilities is None or probabilities.shape[1:] != [2]:
        raise errors.UsageError(
            f"eval.group: {grouping.NEEDS}; in evaluation the model predicts "
            f"{', '.join(given) or 'nothing'}"
        )
    collector = Collector(column, top)
    tf.compat.v1.add_to_collection(_COLLECTORS, collector)
    batch = [ids, tf.reshape(labels, [-1]), probabilities[:, 1]]
    if there is not None:
        batch = [tf.boolean_mask(x, there) for x in batch]
    update = tf.compat.v1.py_func(collector.add, batch, tf.int64)
    values = tf.compat.v1.py_func(collector.compute_values, [], tf.float64)
    values.set_shape([len(metrics_of_groups(top))])
    named = zip(metrics_of_groups(top), tf.unstack(values), strict=True)
    ours = {prefix + name: (value, update) for name, value in named}
    return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **ours})
