"""A checkpoint judged on a split: over all of it, and over each slice, beside a baseline."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from trainer.input import parsing
from trainer.input.dataset import Records
from trainer.metrics import intervals, notes, probabilities
from trainer.metrics.intervals import Estimate
from trainer.metrics.probabilities import Scored
from trainer.metrics.summaries import Binary, Classes, Numbers, Summary
from trainer.models import heads

ALL = "all"
# The most frequent values of a column are slices of their own.
_VALUES = 20
_LABEL = "scored/label"
_SLICE = "scored/slice/"
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
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any] = (),
) -> Judgement:
    """Returns the split judged, over all of it and by each column of `slices`.

    There are no rows for a model that serves neither `class` nor `prediction`, unless slices are
    asked for: then raises `UsageError`.
    """
    batches = _answers(records, estimator, checkpoint, split, slices, hooks)
    first = next(batches)
    kind = next((k for k in ("class", "prediction") if k in first), None)
    if kind is None:
        if slices:
            raise errors.UsageError(
                "slices: the model serves neither 'class' nor 'prediction', but "
                f"{', '.join(n for n in first if n != _LABEL and not n.startswith(_SLICE))}"
            )
        return Judgement([])
    summary = _summary(records, first, kind)
    # Only what slices need is kept of all records; what plots need is counted.
    kept = []
    for batch in itertools.chain([first], batches):
        _count(summary, batch, kind)
        kept.append(_needed(batch, kind))
    found = {name: np.concatenate([batch[name] for batch in kept]) for name in kept[0]}
    labels = found.pop(_LABEL)
    of_kind = _classes if kind == "class" else _numbers
    rows = [
        Row(name, int(chosen.sum()), *of_kind(found, labels, chosen))
        for name, chosen in _chosen(found, slices, records.job.data.columns, len(labels))
    ]
    names = records.transforms.plan.label.values or ()
    return Judgement(rows, summary, tuple(map(_shown, names)), tuple(_notes(found, rows)))


def _notes(found: Mapping[str, np.ndarray], rows: Sequence[Row]) -> Iterator[str]:
    if _POSITIVE in found:
        by_slice = [(row.slice, row.metrics) for row in rows]
        yield from notes.undefined(by_slice, ("auc", *probabilities.NAMES))


def _is_binary(batch: Mapping[str, np.ndarray]) -> bool:
    return "probabilities" in batch and batch["probabilities"].shape[1:] == (2,)


def _needed(batch: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    kept = {n: x for n, x in batch.items() if n in (_LABEL, kind) or n.startswith(_SLICE)}
    if _is_binary(batch):
        first, kept[_POSITIVE] = batch["probabilities"].T
        kept[_LIKELIHOOD] = np.where(batch[_LABEL] == 1, kept[_POSITIVE], first)
    return kept


def _summary(records: Records, batch: Mapping[str, np.ndarray], kind: str) -> Summary | None:
    """Returns an empty summary of the model's kind; none for classes that are not whole numbers."""
    if kind == "prediction":
        return Numbers(*_scale(records, batch[_LABEL]))
    if not all(batch[name].dtype.kind in "biu" for name in (_LABEL, kind)):
        return None
    return Binary() if _is_binary(batch) else Classes()


def _scale(records: Records, labels: np.ndarray) -> tuple[float, float]:
    """Returns the outermost percents of the labels of train, which all runs on these records share;
    of records without statistics, the extremes of the first batch."""
    contents = records.manifest
    statistics = contents.statistics.get("train")
    column = statistics.columns.get(contents.label) if statistics else None
    if column is None or column.quantiles is None:
        return float(labels.min()), float(labels.max())
    return column.quantiles[1], column.quantiles[99]


def _count(summary: Summary | None, batch: Mapping[str, np.ndarray], kind: str) -> None:
    if isinstance(summary, Binary):
        summary.add(batch[_LABEL], batch["probabilities"][:, 1])
    elif summary is not None:
        summary.add(batch[_LABEL], batch[kind])


def _answers(
    records: Records,
    estimator: Any,
    checkpoint: str,
    split: str,
    slices: Sequence[str],
    hooks: Sequence[Any],
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of what the model serves, with labels and what slices are made by."""
    columns = {name: records.job.data.columns[name] for name in slices}
    transforms = records.transforms

    def examples(batch: tf.Tensor) -> parsing.Tensors:
        made, label = transforms.examples(parsing.parse(batch, transforms.columns), training=False)
        values = parsing.parse(batch, columns) if columns else {}
        return {**made, _LABEL: label, **{_SLICE + name: x for name, x in values.items()}}

    def input_fn() -> tf.data.Dataset:
        return records.serialized(split).rebatch(records.job.eval.batch_size).map(examples)

    keep = (_LABEL, *(_SLICE + name for name in slices))
    yield from heads.answering(estimator, keep).predict(
        input_fn, checkpoint_path=checkpoint, hooks=hooks, yield_single_examples=False
    )


def _chosen(
    found: Mapping[str, np.ndarray],
    slices: Sequence[str],
    columns: Mapping[str, config.Column],
    count: int,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names of slices, and which records are in them, `[records]` bool."""
    yield ALL, np.ones(count, bool)
    for column in slices:
        values = found[_SLICE + column]
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


_Judged = tuple[dict[str, Estimate], dict[str, float]]


def _classes(found: Mapping[str, np.ndarray], labels: np.ndarray, chosen: np.ndarray) -> _Judged:
    distinct, counts = np.unique(labels, return_counts=True)
    of = labels[chosen]
    metrics = {"accuracy": intervals.share(found["class"][chosen] == of)}
    baseline = {"accuracy": float(np.mean(of == distinct[np.argmax(counts)]))}
    if _POSITIVE in found:
        scores = found[_POSITIVE][chosen]
        area = intervals.area_under_roc(of, scores)
        if area:
            metrics["auc"], baseline["auc"] = area, 0.5  # of a model that scores all alike
        scored = Scored(of == 1, scores, found[_LIKELIHOOD][chosen])
        more = probabilities.metrics(scored, float(np.mean(labels == 1)))
        metrics, baseline = metrics | more[0], baseline | more[1]
    return metrics, baseline


def _numbers(found: Mapping[str, np.ndarray], labels: np.ndarray, chosen: np.ndarray) -> _Judged:
    of = labels[chosen].astype(float)
    errors_made, simple = found["prediction"][chosen] - of, float(np.mean(labels)) - of
    metrics = {
        "mean_absolute_error": intervals.mean(np.abs(errors_made)),
        "rmse": intervals.root_mean_square(errors_made),
    }
    return metrics, {
        "mean_absolute_error": float(np.mean(np.abs(simple))),
        "rmse": float(np.sqrt(np.mean(np.square(simple)))),
    }
