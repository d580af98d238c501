"""Columns that determine the label: a model that has them looks perfect, and is worth nothing if
they are not known before the label is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from preprocessing.schema_inference import monotone, traits
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.sources import together
from preprocessing.sources.base import Source

# Rows to look at; those of fewer may agree by chance.
_ROWS, _LEAST_ROWS = 100_000, 200
# Different values of a column, and rows of each on average.
_VALUES, _OFTEN = 100, 10


def find(
    source: Source, labels: Collection[str], columns: Mapping[str, ColumnProfile]
) -> dict[str, str]:
    """Returns those of the `columns`, but for labels, that determine a label in all of the first
    rows, each with what was seen of it, as a sentence without its end.

    Each value of such a column has one and the same class, or a label of numbers rises or falls
    with its numbers.
    """
    others = {name: found for name, found in columns.items() if name not in labels}
    telling: dict[str, str] = {}
    for label in labels:
        of_label = _find(source, label, {label: columns[label], **others})
        telling |= {name: why for name, why in of_label.items() if name not in telling}
    return telling


def _find(source: Source, label: str, columns: Mapping[str, ColumnProfile]) -> dict[str, str]:
    target = columns[label]
    batches = _read_first(source)
    if traits.is_class(target) or traits.find_threshold(target) is not None:
        found = _find_classes(batches, label, columns) if _occurs_often(target) else []
        return {name: f"each value of {name!r} has one label only" for name in found}
    found = monotone.find_monotone(batches, label, columns)
    return {name: f"the label {label!r} rises or falls with {name!r} in all rows" for name in found}


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
    """Returns the columns each of whose values has one label only."""
    known: dict[str, set[tuple[object, object]]] = {
        name: set() for name, found in columns.items() if name != label and _occurs_often(found)
    }
    for batch in batches:
        for name, pairs in list(known.items()):
            pairs |= _find_pairs(batch, name, label)
            if len({value for value, _ in pairs}) < len(pairs):
                del known[name]
        if not known:
            break
    return list(known)


def _occurs_often(found: ColumnProfile) -> bool:
    different = found.different
    if different is None or found.lengths or found.listed:
        return False
    count = len(different) + bool(found.missing)  # a missing value may tell, too
    often = found.values + found.missing >= max(_LEAST_ROWS, _OFTEN * count)
    return often and 1 < count <= _VALUES


def _decode(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _find_pairs(batch: pa.RecordBatch, name: str, label: str) -> set[tuple[object, object]]:
    """Returns the values of a column that occur, each with its labels; rows without a label are
    left out."""
    table = pa.table({"value": _decode(batch.column(name)), "label": _decode(batch.column(label))})
    found = table.filter(table["label"].is_valid()).group_by(["value", "label"]).aggregate([])
    columns = (found[place].to_pylist() for place in ("value", "label"))
    return set(zip(*columns, strict=True))
