"""Columns that determine the label: a model that has them looks perfect, and is worth nothing if
they are not known before the label is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from preprocessing.schema_inference import class_ranges, monotone, traits
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.sources import together
from preprocessing.sources.base import Source

# Rows to look at; those of fewer may agree by chance.
_ROWS, _LEAST_ROWS = 100_000, 200
# Different values of a label, of a column, and of one of whole numbers or texts; rows of each on
# average. Measured numbers that recur rather tell which rows belong together.
_CLASSES, _VALUES, _MOST_VALUES, _OFTEN = 100, 100, 10_000, 10


def find(
    source: Source, labels: Collection[str], columns: Mapping[str, ColumnProfile]
) -> dict[str, str]:
    """Returns those of the `columns`, but for labels, that determine a label in all of the first
    rows, each with what was seen of it, as a sentence without its end.

    Each value of such a column has one and the same class, each class has a range of its numbers,
    or a label of numbers rises or falls with its numbers.
    """
    others = {name: found for name, found in columns.items() if name not in labels}
    telling: dict[str, str] = {}
    for label in labels:
        of_label = _find(source, label, {label: columns[label], **others})
        telling |= {name: why for name, why in of_label.items() if name not in telling}
    return telling


def _find(source: Source, label: str, columns: Mapping[str, ColumnProfile]) -> dict[str, str]:
    target = columns[label]
    if not (traits.is_class(target) or traits.find_threshold(target) is not None):
        ordered = monotone.find_monotone(_read_first(source), label, columns)
        return {n: f"the label {label!r} rises or falls with {n!r} in all rows" for n in ordered}
    if not _occurs_often(target, _CLASSES):
        return {}
    single = _find_classes(_read_first(source), label, columns)
    found = {name: f"each value of {name!r} has one label only" for name in single}
    others = {name: column for name, column in columns.items() if name not in found}
    for name in class_ranges.find(_read_first(source), label, others):
        found[name] = f"each class of the label {label!r} has a range of {name!r} of its own"
    return {name: found[name] for name in columns if name in found}


def _read_first(source: Source) -> Iterator[pa.RecordBatch]:
    """Yields the batches that have the first rows."""
    read = 0
    source = together.wrap(source)
    for chunk in (chunk for split in source.data.inputs for chunk in source.plan(split)):
        for rows in source.read(chunk):
            yield rows.batch
            read += rows.batch.num_rows
            if read >= _ROWS:
                return


def _find_classes(
    batches: Iterable[pa.RecordBatch], label: str, columns: Mapping[str, ColumnProfile]
) -> list[str]:
    """Returns the columns each of whose values has one label only, by more than chance."""
    known: dict[str, set[tuple[object, object]]] = {
        name: set()
        for name, found in columns.items()
        if name != label and _occurs_often(found, _VALUES if _is_measured(found) else _MOST_VALUES)
    }
    for batch in batches:
        for part in (batch.slice(0, monotone.FIRST), batch.slice(monotone.FIRST)):
            for name, pairs in list(known.items()):
                pairs |= _find_pairs(part, name, label)
                if len({value for value, _ in pairs}) < len(pairs):
                    del known[name]
        if not known:
            break
    return [name for name in known if _is_certain(columns[name], columns[label])]


def _is_measured(found: ColumnProfile) -> bool:
    return found.kind == "float32"


def _occurs_often(found: ColumnProfile, most: int) -> bool:
    different = found.different
    if different is None or found.lengths or found.listed:
        return False
    count = len(different) + bool(found.missing)  # a missing value may tell, too
    often = found.values + found.missing >= max(_LEAST_ROWS, _OFTEN * count)
    return often and 1 < count <= most


def _is_certain(found: ColumnProfile, label: ColumnProfile) -> bool:
    """Tells if no chance gives the rows of each value the same label, as it does where almost all
    rows have one label.

    Two bounds of that chance, of which the lower counts: that of labels drawn for each row, and of
    all ways to give the rows their labels the part that gives each value one.
    """
    counts = list((label.different or {}).values())
    sizes = np.array([*(found.different or {}).values(), found.missing], float)
    sizes *= min(1.0, _ROWS / sizes.sum())
    classes = np.array(counts, float)
    alike = np.logaddexp.reduce(sizes[:, None] * np.log(classes / classes.sum()), axis=1)
    drawn = float(np.minimum(alike, 0).sum())  # a part of a row is as sure as none
    ways = len(sizes) * math.log(len(counts)) + class_ranges.compute_share_of_order(counts)
    return min(drawn, ways) < class_ranges.UNLIKELY


def _decode(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _find_pairs(batch: pa.RecordBatch, name: str, label: str) -> set[tuple[object, object]]:
    """Returns the values of a column that occur, each with its labels; rows without a label are
    left out."""
    table = pa.table({"value": _decode(batch.column(name)), "label": _decode(batch.column(label))})
    found = table.filter(table["label"].is_valid()).group_by(["value", "label"]).aggregate([])
    columns = (found[place].to_pylist() for place in ("value", "label"))
    return set(zip(*columns, strict=True))
