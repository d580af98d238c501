"""A checkpoint evaluated on a split: on all of it, and on each slice, next to a baseline."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.console import work
from pipeline.records import feature_plan
from trainer.checkpoints import shapes
from trainer.heads import heads
from trainer.input import grouping, slicing
from trainer.input.dataset import RecordDataset
from trainer.metrics import class_metrics, intervals
from trainer.metrics.class_metrics import Answers
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.summaries import Binary, Classes, PredictedNumbers, Summary

ALL = "all"
# So many records are kept for the intervals of a split without slices, about 30 bytes each: of a
# million the ends are known to a thousandth of the width.
_KEPT = 1_000_000
# The most frequent values of a column are slices of their own.
_VALUES = 20
LABEL = "input/label"
SLICE, GROUP = slicing.SLICE, grouping.FEATURE
# What a model predicts that can be evaluated.
KINDS = ("class", "prediction")
# The probability of the second of two classes, and of the class that was observed.
_POSITIVE, _LIKELIHOOD = "positive", "likelihood"


@dataclasses.dataclass(frozen=True)
class SliceRow:
    """One slice. `metrics` are of the model; `baseline` of always the most frequent label of the
    split, or its mean; of probabilities, always the share of positives."""

    slice: str
    records: int
    metrics: dict[str, MetricEstimate]
    baseline: dict[str, float]


@dataclasses.dataclass(frozen=True)
class SliceResult:
    """A split: a row for all of it, then one for each slice, and what its plots need. There are no
    rows if only some of its records were looked at one by one."""

    rows: list[SliceRow]
    summary: Summary | None = None
    # Of classes that are not numbers.
    names: tuple[str, ...] = ()
    # What a reader must know of the metrics, a sentence each.
    notes: tuple[str, ...] = ()
    # Of all records, by the names that models report; each is of one record in `every`.
    reported: Mapping[str, MetricEstimate] = dataclasses.field(default_factory=dict)
    every: int = 1


class SliceEvaluation:
    """A split by one label, evaluated as its predictions come in: over all of it, and by each
    column of `slices`.

    There are no rows for a model that predicts neither `class` nor `prediction`, unless slices are
    asked for: then `add` raises `UsageError`.
    """

    def __init__(
        self,
        records: RecordDataset,
        slices: Sequence[str],
        label: str | None = None,
        *,
        every: int = 1,
    ) -> None:
        """Of several labels it is by one, where that is not missing. Of records without slices one
        in `every` is kept."""
        self._records, self._slices, self._label = records, slices, label
        self._every, self._seen = every, 0
        self._kind: str | None = None
        self._begun = False
        self._summary: Summary | None = None
        # Only what slices need is kept of all records; what plots need is counted.
        self._kept: list[dict[str, np.ndarray]] = []

    @property
    def is_over(self) -> bool:
        """True if no further batch adds anything."""
        return self._begun and self._kind is None

    def add(self, batch: Mapping[str, np.ndarray]) -> None:
        """Adds what is predicted of some records, with what `score_batches` has next to it."""
        batch = batch if self._label is None else _select_label(batch, self._label)
        if not len(batch[LABEL]):
            return
        if not self._begun:
            self._begin(batch)
        if self._kind is not None:
            _count(self._summary, batch, self._kind)
            first = -self._seen % self._every
            self._seen += len(batch[LABEL])
            needed = _select_needed(batch, self._kind)
            self._kept.append({name: x[first :: self._every].copy() for name, x in needed.items()})

    def _begin(self, batch: Mapping[str, np.ndarray]) -> None:
        self._begun = True
        kind = next((k for k in KINDS if k in batch), None)
        if GROUP in batch and not _is_binary(batch):
            raise errors.UsageError(
                f"eval.group: {grouping.NEEDS}; the model serves {_list_served(batch)}"
            )
        if kind is not None:
            self._summary = _build_summary(self._records, batch, kind, label=self._label)
        elif self._slices:
            raise errors.UsageError(
                f"slices: the model serves neither 'class' nor 'prediction', but "
                f"{_list_served(batch)}"
            )
        self._kind = kind

    def result(self) -> SliceResult:
        """Returns what was found in the batches added so far."""
        if not self._begun and self._label is not None:
            return SliceResult([], notes=(f"All rows lack the label {self._label}.",))
        if self._kind is None:
            return SliceResult([])
        found = {n: np.concatenate([batch[n] for batch in self._kept]) for n in self._kept[0]}
        masks = build_slice_masks(found, self._slices, self._records.job.data.columns)
        if self._kind == "prediction":
            rows = [SliceRow(name, int(m.sum()), *measure_numbers(found, m)) for name, m in masks]
            reported = {**rows[0].metrics, **_compute_reported(found)}
            result = SliceResult(rows, self._summary, reported=reported)
        else:
            result = self._evaluate_classes(found, masks)
        if self._every == 1:
            return result
        return dataclasses.replace(
            result, rows=[], every=self._every, notes=(self._describe_sample(found),)
        )

    def _describe_sample(self, found: Mapping[str, np.ndarray]) -> str:
        return (
            f"Intervals are of one record in {self._every:,}, {len(found[LABEL]):,} of "
            f"{self._seen:,}, and narrower by the root of that."
        )

    def _evaluate_classes(
        self, found: Mapping[str, np.ndarray], masks: Iterator[tuple[str, np.ndarray]]
    ) -> SliceResult:
        job = self._records.job
        answers = Answers(
            found[LABEL],
            found["class"],
            found.get(_POSITIVE),
            found.get(_LIKELIHOOD),
            class_metrics.number_groups(found[GROUP], grouping.MISSING) if GROUP in found else None,
        )
        metrics = class_metrics.build_mask_metrics(answers, job.eval.top_k)
        rows = [SliceRow(name, int(mask.sum()), *metrics(mask)) for name, mask in masks]
        by_slice = [(row.slice, row.metrics) for row in rows]
        notes = class_metrics.explain(answers, by_slice, job.eval.group, top=job.eval.top_k)
        names = _find_label(self._records, self._label).values or ()
        reported = class_metrics.list_reported_metrics(answers, rows[0].metrics)
        shown = tuple(map(_format_value, names))
        return SliceResult(rows, self._summary, shown, tuple(notes), reported)


def find_stride(records: RecordDataset, split: str) -> int:
    """Returns of how many records of a split one has to be kept, for intervals without slices."""
    return max(1, math.ceil(int(records.list_blocks(split).due.sum()) / _KEPT))


def build_evaluations(
    records: RecordDataset, slices: Sequence[str], *, every: int = 1
) -> dict[str | None, SliceEvaluation]:
    """Returns what evaluates a split by each label of the job; a single one is called `None`."""
    labels: Sequence[str | None] = list(records.job.labels) or [None]
    return {label: SliceEvaluation(records, slices, label, every=every) for label in labels}


def evaluate(
    records: RecordDataset,
    estimator: Any,
    checkpoint: str,
    *,
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any] = (),
) -> dict[str | None, SliceResult]:
    """Returns the split, evaluated by each label, by what the exported model would serve."""
    by_label = build_evaluations(records, slices)
    for batch in score_batches(
        records, estimator, checkpoint, split=split, slices=slices, hooks=hooks
    ):
        for one in by_label.values():
            one.add(batch)
        work.advance(len(next(iter(batch.values()))))
        if all(one.is_over for one in by_label.values()):
            break
    return {label: one.result() for label, one in by_label.items()}


def _list_served(batch: Mapping[str, np.ndarray]) -> str:
    return ", ".join(n for n in batch if not _is_ours(n))


def _is_ours(name: str) -> bool:
    """True for what a model does not serve, but gets."""
    return name == LABEL or name.startswith(f"{LABEL}/") or slicing.is_extra(name)


def _is_binary(batch: Mapping[str, np.ndarray]) -> bool:
    return "probabilities" in batch and batch["probabilities"].shape[1:] == (2,)


def _select_needed(batch: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    ours = (LABEL, GROUP, _LIKELIHOOD, kind)
    kept = {n: x for n, x in batch.items() if n in ours or n.startswith(SLICE)}
    labels, chances = batch[LABEL], batch.get("probabilities")
    if _is_binary(batch):
        first, kept[_POSITIVE] = batch["probabilities"].T
        kept[_LIKELIHOOD] = np.where(labels == 1, kept[_POSITIVE], first)
    elif chances is not None and chances.ndim == 2 and labels.dtype.kind in "biu":
        inside = np.clip(labels.astype(int), 0, chances.shape[1] - 1)
        kept[_LIKELIHOOD] = chances[np.arange(len(labels)), inside]
    return kept


def _find_label(records: RecordDataset, label: str | None) -> feature_plan.PlannedLabel:
    plan = records.transforms.plan
    return next((goal.label for goal in plan.goals if goal.name == label), plan.label)


def _select_label(batch: Mapping[str, np.ndarray], label: str) -> dict[str, np.ndarray]:
    """Returns a batch by one of several labels as if it were the only one, without rows that lack
    it. There are groups only of two classes."""
    there = batch[slicing.THERE + label]
    prefix = f"{label}/"
    found = {
        name.removeprefix(prefix): values[there]
        for name, values in batch.items()
        if name.startswith(prefix) and not _is_ours(name)
    }
    # A label may be called `input`, with which these names begin.
    found |= {
        name: values[there] for name, values in batch.items() if name.startswith((SLICE, GROUP))
    }
    found[LABEL] = batch[f"{LABEL}/{label}"][there]
    if not _is_binary(found):
        found.pop(GROUP, None)
    return found


def _build_summary(
    records: RecordDataset, batch: Mapping[str, np.ndarray], kind: str, *, label: str | None
) -> Summary | None:
    """Returns an empty summary of the model's kind; none for classes that are not whole numbers."""
    if kind == "prediction":
        return PredictedNumbers(
            *_choose_scale(records, batch[LABEL], label or records.manifest.label)
        )
    if not all(batch[name].dtype.kind in "biu" for name in (LABEL, kind)):
        return None
    return Binary() if _is_binary(batch) else Classes()


def _choose_scale(records: RecordDataset, labels: np.ndarray, name: str) -> tuple[float, float]:
    """Returns the outermost percents of the labels of train, which all runs on these records share;
    of records without statistics, the extremes of the first batch."""
    contents = records.manifest
    statistics = contents.statistics.get("train")
    column = statistics.columns.get(name) if statistics else None
    if column is None or column.quantiles is None:
        return float(labels.min()), float(labels.max())
    return column.quantiles[1], column.quantiles[99]


def _count(summary: Summary | None, batch: Mapping[str, np.ndarray], kind: str) -> None:
    if isinstance(summary, Binary):
        summary.add(batch[LABEL], batch["probabilities"][:, 1])
    elif summary is not None:
        summary.add(batch[LABEL], batch[kind])


def score_batches(
    records: RecordDataset,
    estimator: Any,
    checkpoint: str,
    *,
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any],
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of what the model serves, with labels and what slices are made by. Raises
    `shapes.OtherShapes` if the checkpoint is of another model."""
    read = records.build_eval_input_fn(split, slices)

    def input_fn() -> tf.data.Dataset:
        return read().map(lambda features, labels: {**features, **name_labels(labels)})

    keep = [*name_labels(records.job.labels or None), *slicing.list_names(records.job, slices)]
    yield from heads.build_answering_estimator(estimator, keep).predict(
        input_fn,
        checkpoint_path=checkpoint,
        hooks=[shapes.ShapesHook(lambda: checkpoint), *hooks],
        yield_single_examples=False,
    )


def name_labels(labels: Any) -> dict[str, Any]:
    """Returns the labels of a batch by the names `SliceEvaluation` knows them by."""
    if isinstance(labels, Mapping):
        return {f"{LABEL}/{name}": values for name, values in labels.items()}
    return {LABEL: labels}


def build_slice_masks(
    found: Mapping[str, np.ndarray],
    slices: Sequence[str],
    columns: Mapping[str, config.Column],
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names of slices, and which records are in them, `[records]` bool."""
    yield ALL, np.ones(len(found[LABEL]), bool)
    for column in slices:
        values = found[SLICE + column]
        missing = _find_missing(values, columns[column])
        distinct, counts = np.unique(values[~missing], return_counts=True)
        if len(distinct) > _VALUES and values.dtype.kind in "if":
            yield from _build_quarters(column, values, ~missing)
        else:
            frequent = distinct[np.lexsort([distinct, -counts])][:_VALUES]
            for value in frequent:
                yield f"{column}={_format_value(value)}", values == value
            if len(distinct) > _VALUES:
                yield f"{column}: others", ~np.isin(values, frequent)
        if missing.any():
            yield f"{column} missing", missing


def _find_missing(values: np.ndarray, column: config.Column) -> np.ndarray:
    """Returns where numbers are missing, and nothing of the config stands for them; an empty text
    is a value like others."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    stands_in = column.missing == "allow" and column.default is None and column.type == "int64"
    return values == column.stands_for_missing if stands_in else np.zeros(len(values), bool)


def _build_quarters(
    column: str, values: np.ndarray, known: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    edges = np.unique(np.quantile(values[known], [0, 0.25, 0.5, 0.75, 1]))
    for n, (low, high) in enumerate(itertools.pairwise(edges)):
        above = values >= low if n == 0 else values > low
        yield f"{column} {low:g} to {high:g}", known & above & (values <= high)


def _format_value(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text or "(empty)"


def _compute_reported(found: Mapping[str, np.ndarray]) -> dict[str, MetricEstimate]:
    """Returns what models of numbers report besides, of all records."""
    labels, predicted = (found[name].astype(float) for name in (LABEL, "prediction"))
    means = {"label/mean": labels, "prediction/mean": predicted}
    return {
        "average_loss": intervals.estimate_mean(np.square(predicted - labels)),
        **{name: intervals.estimate_plain_mean(values) for name, values in means.items()},
    }


def measure_numbers(found: Mapping[str, np.ndarray], chosen: np.ndarray) -> class_metrics.Metrics:
    """Returns what is measured of the chosen rows of a regression, and what the mean of all rows
    gets on them."""
    labels = found[LABEL].astype(float)  # the mean of large float32 would be off by hundreds
    of = labels[chosen]
    errors_made, simple = found["prediction"][chosen] - of, float(np.mean(labels)) - of
    metrics = {
        "mean_absolute_error": intervals.estimate_mean(np.abs(errors_made)),
        "rmse": intervals.estimate_root_mean_square(errors_made),
    }
    return metrics, {
        "mean_absolute_error": float(np.mean(np.abs(simple))),
        "rmse": float(np.sqrt(np.mean(np.square(simple)))),
    }
