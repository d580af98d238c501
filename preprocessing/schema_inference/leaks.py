"""Columns that determine the label: a model that has them looks perfect, and is worth nothing if
they are not known before the label is."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from preprocessing.schema_inference import traits
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.sources import together
from preprocessing.sources.base import Source

# Rows to look at; those of fewer may agree by chance.
_ROWS, _LEAST_ROWS = 100_000, 200
# Different values of a column, and rows of each on average.
_VALUES, _OFTEN = 100, 10


def find(
    source: Source, labels: Collection[str], columns: Mapping[str, ColumnProfile]
) -> list[str]:
    """Returns those of the `columns`, but for labels, each of whose values has one and the same
    label in all of the first rows, if the label is a class."""
    others = {name: found for name, found in columns.items() if name not in labels}
    telling = [_find(source, name, {name: columns[name], **others}) for name in labels]
    return list(dict.fromkeys(name for of_label in telling for name in of_label))


def _find(source: Source, label: str, columns: Mapping[str, ColumnProfile]) -> list[str]:
    target = columns[label]
    is_class = traits.is_class(target) or traits.find_threshold(target) is not None
    if not is_class or not _occurs_often(target):
        return []
    known: dict[str, set[tuple[object, object]]] = {
        name: set() for name, found in columns.items() if name != label and _occurs_often(found)
    }
    read = 0
    source = together.wrap(source)
    for chunk in (chunk for split in source.data.inputs for chunk in source.plan(split)):
        for rows in source.read(chunk):
            for name, pairs in list(known.items()):
                pairs |= _find_pairs(rows.batch, name, label)
                if len({value for value, _ in pairs}) < len(pairs):
                    del known[name]
            read += rows.batch.num_rows
            if not known or read >= _ROWS:
                return list(known)
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
