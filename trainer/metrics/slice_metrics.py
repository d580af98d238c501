"""A checkpoint evaluated on a split: on all of it, and on each slice, next to a baseline."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.records import feature_plan
from trainer.input import grouping, parsing
from trainer.input.dataset import Records
from trainer.metrics import class_metrics, intervals
from trainer.metrics.class_metrics import Answers
from trainer.metrics.intervals import Estimate
from trainer.metrics.summaries import Binary, Classes, Numbers, Summary
from trainer.models import heads

ALL = "all"
# The most frequent values of a column are slices of their own.
_VALUES = 20
_OURS = "scored/"
LABEL = "scored/label"
SLICE = "scored/slice/"
GROUP = "scored/group"
_THERE = "scored/there"
# Of two classes: the probability of the second, and of the one that was observed.
_POSITIVE, _LIKELIHOOD = "positive", "likelihood"


@dataclasses.dataclass(frozen=True)
class Row:
    """One slice. `metrics` are of the model; `baseline` of always the most frequent label of the
    split, or its mean; of probabilities, always the share of positives."""

    slice: str
    records: int
    metrics: dict[str, Estimate]
    baseline: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Judgement:
    """A split: a row for all of it, then one for each slice, and what its plots need."""

    rows: list[Row]
    summary: Summary | None = None
    # Of classes that are not numbers.
    names: tuple[str, ...] = ()
    # What a reader must know of the metrics, a sentence each.
    notes: tuple[str, ...] = ()


def judge(
    records: Records,
    estimator: Any,
    checkpoint: str,
    *,
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any] = (),
    label: str | None = None,
) -> Judgement:
    """Returns the split judged, over all of it and by each column of `slices`. Of several labels it
    is judged by one, where that is not missing.

    There are no rows for a model that serves neither `class` nor `prediction`, unless slices are
    asked for: then raises `UsageError`.
    """
    grouping.check(records.job, split, records.manifest.split(split).records)
    batches = scored(
        records, estimator, checkpoint, split=split, slices=slices, hooks=hooks, label=label
    )
    if label is not None:
        batches = _of_label(batches, label)
    first = next(batches, None)
    if first is None:
        return Judgement([], notes=(f"All rows lack the label {label}.",))
    kind = next((k for k in ("class", "prediction") if k in first), None)
    if GROUP in first and not _is_binary(first):
        raise errors.UsageError(f"eval.group: {grouping.NEEDS}; the model serves {_served(first)}")
    if kind is None:
        if slices:
            raise errors.UsageError(
                f"slices: the model serves neither 'class' nor 'prediction', but {_served(first)}"
            )
        return Judgement([])
    summary = _summary(records, first, kind, label=label)
    # Only what slices need is kept of all records; what plots need is counted.
    kept = []
    for batch in itertools.chain([first], batches):
        _count(summary, batch, kind)
        kept.append(_needed(batch, kind))
    found = {name: np.concatenate([batch[name] for batch in kept]) for name in kept[0]}
    job, masks = records.job, slice_masks(found, slices, records.job.data.columns)
    if kind == "prediction":
        rows = [Row(name, int(m.sum()), *of_numbers(found, m)) for name, m in masks]
        return Judgement(rows, summary)
    answers = Answers(
        found[LABEL],
        found[kind],
        found.get(_POSITIVE),
        found.get(_LIKELIHOOD),
        class_metrics.grouped(found[GROUP], grouping.MISSING) if GROUP in found else None,
    )
    metrics = class_metrics.over(answers, job.eval.top_k)
    rows = [Row(name, int(mask.sum()), *metrics(mask)) for name, mask in masks]
    by_slice = [(row.slice, row.metrics) for row in rows]
    told = class_metrics.explained(answers, by_slice, job.eval.group, top=job.eval.top_k)
    names = _planned(records, label).values or ()
    return Judgement(rows, summary, tuple(map(_shown, names)), tuple(told))


def _served(batch: Mapping[str, np.ndarray]) -> str:
    return ", ".join(name for name in batch if not name.startswith(_OURS))


def _is_binary(batch: Mapping[str, np.ndarray]) -> bool:
    return "probabilities" in batch and batch["probabilities"].shape[1:] == (2,)


def _needed(batch: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    kept = {n: x for n, x in batch.items() if n in (LABEL, GROUP, kind) or n.startswith(SLICE)}
    if _is_binary(batch):
        first, kept[_POSITIVE] = batch["probabilities"].T
        kept[_LIKELIHOOD] = np.where(batch[LABEL] == 1, kept[_POSITIVE], first)
    return kept


def _planned(records: Records, label: str | None) -> feature_plan.PlannedLabel:
    plan = records.transforms.plan
    return next((goal.label for goal in plan.goals if goal.name == label), plan.label)


def _of_label(
    batches: Iterator[dict[str, np.ndarray]], label: str
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of one of several labels as if it were the only one, without rows that lack
    it. There are groups only of two classes."""
    for batch in batches:
        there = batch.pop(_THERE)
        found = {
            name.removeprefix(f"{label}/"): values[there]
            for name, values in batch.items()
            if name.startswith((_OURS, f"{label}/"))
        }
        if not _is_binary(found):
            found.pop(GROUP, None)
        if there.any():
            yield found


def _summary(
    records: Records, batch: Mapping[str, np.ndarray], kind: str, *, label: str | None
) -> Summary | None:
    """Returns an empty summary of the model's kind; none for classes that are not whole numbers."""
    if kind == "prediction":
        return Numbers(*_scale(records, batch[LABEL], label or records.manifest.label))
    if not all(batch[name].dtype.kind in "biu" for name in (LABEL, kind)):
        return None
    return Binary() if _is_binary(batch) else Classes()


def _scale(records: Records, labels: np.ndarray, name: str) -> tuple[float, float]:
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


def scored(
    records: Records,
    estimator: Any,
    checkpoint: str,
    *,
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any],
    label: str | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of what the model serves, with labels and what slices are made by."""
    group = records.job.eval.group
    known = records.job.data.columns
    columns = {name: known[name] for name in (*slices, *([group] if group else []))}
    transforms = records.transforms

    def examples(batch: tf.Tensor) -> parsing.Tensors:
        parsed = parsing.parse(batch, transforms.columns)
        made, wanted = transforms.examples(parsed, training=False)
        values = parsing.parse(batch, columns) if columns else {}
        ours = {LABEL: wanted if label is None else wanted[label]}
        if label is not None:
            ours[_THERE] = transforms.there(parsed, label)
        ours |= {**{SLICE + name: values[name] for name in slices}}
        if group:
            ours[GROUP] = grouping.ids(values[group], known[group])
        return {**made, **ours}

    def input_fn() -> tf.data.Dataset:
        return records.serialized(split).rebatch(records.job.eval.batch_size).map(examples)

    keep = (
        LABEL,
        *([_THERE] if label else []),
        *([GROUP] if group else []),
        *(SLICE + name for name in slices),
    )
    yield from heads.answering(estimator, keep).predict(
        input_fn, checkpoint_path=checkpoint, hooks=hooks, yield_single_examples=False
    )


def slice_masks(
    found: Mapping[str, np.ndarray],
    slices: Sequence[str],
    columns: Mapping[str, config.Column],
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names of slices, and which records are in them, `[records]` bool."""
    yield ALL, np.ones(len(found[LABEL]), bool)
    for column in slices:
        values = found[SLICE + column]
        missing = _missing(values, columns[column])
        distinct, counts = np.unique(values[~missing], return_counts=True)
        if len(distinct) > _VALUES and values.dtype.kind in "if":
            yield from _quarters(column, values, ~missing)
        else:
            frequent = distinct[np.lexsort([distinct, -counts])][:_VALUES]
            for value in frequent:
                yield f"{column}={_shown(value)}", values == value
            if len(distinct) > _VALUES:
                yield f"{column}: others", ~np.isin(values, frequent)
        if missing.any():
            yield f"{column} missing", missing


def _missing(values: np.ndarray, column: config.Column) -> np.ndarray:
    """Returns where numbers are missing, and nothing of the config stands for them; an empty text
    is a value like others."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    stands_in = column.missing == "allow" and column.default is None and column.type == "int64"
    return values == column.stands_for_missing if stands_in else np.zeros(len(values), bool)


def _quarters(
    column: str, values: np.ndarray, known: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    edges = np.unique(np.quantile(values[known], [0, 0.25, 0.5, 0.75, 1]))
    for n, (low, high) in enumerate(itertools.pairwise(edges)):
        above = values >= low if n == 0 else values > low
        yield f"{column} {low:g} to {high:g}", known & above & (values <= high)


def _shown(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text or "(empty)"


def of_numbers(found: Mapping[str, np.ndarray], chosen: np.ndarray) -> class_metrics.Metrics:
    """Returns what is measured of the chosen rows of a regression, and what the mean of all rows
    gets on them."""
    labels = found[LABEL].astype(float)  # the mean of large float32 would be off by hundreds
    of = labels[chosen]
    errors_made, simple = found["prediction"][chosen] - of, float(np.mean(labels)) - of
    metrics = {
        "mean_absolute_error": intervals.mean(np.abs(errors_made)),
        "rmse": intervals.root_mean_square(errors_made),
    }
    return metrics, {
        "mean_absolute_error": float(np.mean(np.abs(simple))),
        "rmse": float(np.sqrt(np.mean(np.square(simple)))),
    }
