"""Predictions as a table: which row each is of, its label if known, and what the model says.

file, row     the raw file and the row in it, counted as dead letters count
shard, record instead of these for stored records that do not say which rows they were made of
<key>         columns of `data.key`, as they are in the row
label         what the model was to learn of the row
prediction    the class, by name if it has one, or the number; null where the model gives none
probability_<class>   one column a class, null in the same rows
<output>      other outputs; numbers are null where they are not finite, but not inside of vectors

Of several labels there are the last three for each, as `<label>/label` and so on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pipeline.config.feature_config import Label
from pipeline.console.figures import figure
from preprocessing.arrow import nulls
from preprocessing.sources.base import Rows
from serving.batch.agreement import CLASS, NUMBER, Agreement, find_truth, is_number, measure

LABEL, PREDICTION, PROBABILITY = "label", "prediction", "probability_"
_CHANCES = "probabilities"  # as a model calls them
PLACE, STORED = ("file", "row"), ("shard", "record")


def place(
    rows: Rows,
    kept: np.ndarray,
    numbers: np.ndarray,
    *,
    column: str,
    names: tuple[str, str] = PLACE,
) -> dict[str, pa.Array]:
    """Returns where the rows at `kept` of `rows.batch` are from, by `column`, in columns called
    `names`; `numbers` are the rows'."""
    if rows.each:
        files = pa.array([rows.each[row].path for row in kept.tolist()], pa.string())
    else:
        files = pa.repeat(pa.scalar(rows.file(column)), len(kept))
    return dict(zip(names, (files, pa.array(numbers, pa.int64())), strict=True))


def build_keys(
    batch: pa.RecordBatch, names: Sequence[str], answers: Mapping[str, object]
) -> dict[str, pa.Array]:
    """Returns key columns by names that nothing else has."""
    taken = {*PLACE, *STORED, LABEL, PREDICTION, *answers}
    return {f"key_{n}" if n in taken else n: batch.column(n) for n in names}


def build_columns(
    found: Mapping[str, np.ndarray], classes: tuple[str, ...] | None
) -> dict[str, pa.Array]:
    """Returns the outputs of a model, `[rows, ...]` each, as columns by names of their own."""
    made: dict[str, pa.Array] = {}
    first = (CLASS, NUMBER)
    unanswered = _find_unanswered(found)
    for name, values in sorted(found.items(), key=lambda item: (*first, item[0]).index(item[0])):
        if name == CLASS:
            made[PREDICTION] = nulls.put_null(name_classes(values, classes), unanswered)
        elif name == _CHANCES and values.ndim == 2:
            for number in range(values.shape[1]):
                chances = nulls.put_null(pa.array(values[:, number]), unanswered)
                made[PROBABILITY + _name_class(number, classes)] = chances
        else:
            taken = name in {*PLACE, *STORED, LABEL, *made}
            column = _convert_values(values)
            if values.ndim == 1:
                column = nulls.put_null(column, ~_find_finite(values))
            made[f"output_{name}" if taken else name] = column
    return made


def find_undefined(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the rows, bool `[rows]`, that have a value that is not finite, by output, if there
    are any. Those without a prediction are of `PREDICTION`, whatever the model calls it."""
    undefined = {PREDICTION: _find_unanswered(found)}
    for name, values in found.items():
        if name not in (NUMBER, _CHANCES):
            undefined[name] = ~_find_finite(values)
    return {name: rows for name, rows in undefined.items() if rows.any()}


def _find_unanswered(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the rows for which the number, or a probability, is not finite: the class of such a
    row means nothing."""
    unanswered = np.zeros(len(next(iter(found.values()), ())), bool)
    for name in (NUMBER, _CHANCES):
        if name in found:
            unanswered |= ~_find_finite(found[name])
    return unanswered


def _find_finite(values: np.ndarray) -> np.ndarray:
    """Returns the rows, bool `[rows]`, with nothing but finite numbers, or texts."""
    if not np.issubdtype(values.dtype, np.floating):
        return np.ones(len(values), bool)
    return np.isfinite(values).all(axis=tuple(range(1, values.ndim)))


def select_label(found: Mapping[str, np.ndarray], label: str) -> dict[str, np.ndarray]:
    """Returns the outputs for one of several labels, by the names they have for a single one."""
    prefix = f"{label}/"
    return {n.removeprefix(prefix): x for n, x in found.items() if n.startswith(prefix)}


def _convert_values(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return _convert_to_arrow(values)
    return pa.array([_convert_to_arrow(row.ravel()).to_pylist() for row in values])


def _convert_to_arrow(values: np.ndarray) -> pa.Array:
    """Returns numbers as they are, and bytes as text."""
    if values.dtype != object:
        return pa.array(values)
    return pa.array([value.decode(errors="backslashreplace") for value in values])


def name_classes(numbers: np.ndarray, classes: tuple[str, ...] | None) -> pa.Array:
    """Returns the names of classes; their numbers if they have no names."""
    if classes is None:
        return pa.array(numbers, pa.int64())
    return pa.array([_name_class(number, classes) for number in numbers.tolist()], pa.string())


def _name_class(number: int, classes: tuple[str, ...] | None) -> str:
    return classes[number] if classes and 0 <= number < len(classes) else str(number)


def compare_labels(
    labels: pa.Array,
    label: Label,
    found: Mapping[str, np.ndarray],
    *,
    classes: tuple[str, ...] | None,
) -> tuple[pa.Array, Agreement]:
    """Returns the labels as the model knows them, null where unknown, and how it agrees with them:
    with those of rows that have a prediction.

    Both are of nothing if the model answers neither a class nor a number.
    """
    answered = next((kind for kind in (CLASS, NUMBER) if kind in found), None)
    if answered is None or found[answered].ndim != 1:
        return pa.nulls(len(labels)), Agreement()
    values, known = find_truth(labels, label, classes, answered=answered)
    if answered == CLASS:
        shown = name_classes(values, classes)
    else:
        # As it is in the column: a float32 has fewer digits than the float64 it is compared as.
        shown = labels if is_number(labels.type) else pa.array(values)
    compared = known & ~_find_unanswered(found)
    agreement = measure(answered, found[answered][compared], values[compared])
    agreement = dataclasses.replace(agreement, known=int(known.sum()))
    return nulls.put_null(shown, ~known), agreement


def render(found: pa.Table, rows: int) -> str:
    """Shows the first predictions, next to their labels if these are known."""
    head = found.slice(0, rows)
    values = {name: head.column(name).to_pylist() for name in head.column_names}
    where = tuple(values)[:2]
    places = zip(*(values[name] for name in where), strict=True)
    cells = {where[1]: [f"{path.rpartition('/')[2]}:{row}" for path, row in places]}
    chances = [name for name in values if name.startswith(PROBABILITY)]
    for name in values:
        if name not in (*where, *chances):
            cells[name] = [_format_cell(value) for value in values[name]]
    if chances:
        every = zip(*(values[name] for name in chances), strict=True)
        best = (None if None in row else max(row) for row in every)
        cells["probability"] = [_format_cell(value) for value in best]
    marks = [""] * head.num_rows
    if chances and LABEL in values and PREDICTION in values:
        pairs = zip(values[LABEL], values[PREDICTION], strict=True)
        marks = [
            "" if None in (label, said) or label == said else "  wrong" for label, said in pairs
        ]
    widths = [max(map(len, [name, *column])) for name, column in cells.items()]
    lines = [tuple(cells), *zip(*cells.values(), strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) + mark
        for line, mark in zip(lines, ["", *marks], strict=True)
    )


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    text = figure(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
