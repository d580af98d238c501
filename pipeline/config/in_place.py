"""TFRecords of the user's own that are trained on where they lie: which settings need files that
preprocessing writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config.column_config import Column
    from pipeline.config.data_config import Data

SOURCE = "tfrecord"
VALUES = "values"
# Keys that decide which rows there are, where they lie and in which order; and why they cannot.
_OF_COPIES = {
    "key": "rows are not compared with each other",
    "error_budget": "no row can be left out",
    "sample": "no row can be left out",
    "shards": "the files are the shards",
    "seed": "rows stay in the order of the files",
    "provenance": "nothing is added to a record",
    "csv": "the files are TFRecords",
    "generate": "it writes a table, and the files are TFRecords",
}


def check(data: Data) -> None:
    """Raises `ValueError` for what `data.in_place` cannot keep, with what to do."""
    if not data.in_place:
        return
    otherwise = "take it away, or take in_place away, and records are made of the files"
    if data.source != SOURCE:
        raise ValueError(
            f"in_place: takes files of source {SOURCE} as they are, got source {data.source!r}; "
            "take in_place away"
        )
    for key, why in _OF_COPIES.items():
        if getattr(data, key) != type(data).model_fields[key].get_default():
            raise ValueError(f"{key}: with in_place {why}; {otherwise}")
    cut = [name for name in data.split.held_out if name not in data.inputs]
    if cut:
        unless = ", unless you train," if cut[0] == "eval" else ""
        raise ValueError(
            f"split: {cut[0]} cannot be cut out of files that are used in place; name files for it "
            f"in inputs.{cut[0]}, or{unless} do without: split: {{{cut[0]}: 0}}"
        )
    for name, column in data.columns.items():
        if column.missing == "drop":
            raise ValueError(
                f"columns.{name}.missing: drop: with in_place no row can be left out; write reject "
                "or allow, or take in_place away"
            )


def rule(data: Data) -> str | None:
    """Returns the key of a rule that only a look at each value can check, or `None`."""
    found = ((name, _find_rule(column)) for name, column in data.columns.items())
    return next((f"columns.{name}.{key}" for name, key in found if key), None)


def _find_rule(column: Column) -> str | None:
    if column.list and column.on_longer == "reject":
        return "max_items"
    keys = ("min", "max", "min_length", "max_length", "allowed", "dates", "same_length_as")
    fields = type(column).model_fields
    return next((key for key in keys if getattr(column, key) != fields[key].get_default()), None)
