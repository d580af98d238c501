"""Partial statistics in an Arrow file, from which they come back exact to the last bit."""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import Any

import pyarrow as pa

from preprocessing.statistics.column_stats import Counts, Partial, Partials
from preprocessing.statistics.moments import Moments
from preprocessing.statistics.quantile_sketch import Sketch

_NUMBERS = pa.list_(pa.int64())
# The values that were counted are in the field of their type; all are null where none are counted.
_VALUES = {"integers": int, "numbers": float, "texts": str}
# Behind the name of a column, for the lengths of its lists; no name holds a NUL.
_LENGTHS = "\0lengths"
_SCHEMA = pa.schema(
    {
        "split": pa.string(),
        "column": pa.string(),
        "count": pa.int64(),
        "missing": pa.int64(),
        "not_finite": pa.int64(),
        "moments": pa.string(),  # JSON, whose integers have no bounds
        "buckets": _NUMBERS,
        "bucket_counts": _NUMBERS,
        "cut": pa.int64(),
        "integers": _NUMBERS,
        "numbers": pa.list_(pa.float64()),
        "texts": pa.large_list(pa.large_string()),
        "value_counts": _NUMBERS,
    }
)


def write(found: Partials, file: Any) -> None:
    """Writes `found` to a file that is open for writing."""
    every = dict(found)
    for (split, column), partial in found.items():
        if partial.lengths is not None:
            every[split, column + _LENGTHS] = partial.lengths
    rows = [
        (split, column, *_list_fields(partial).values())
        for (split, column), partial in every.items()
    ]
    arrays = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(_SCHEMA)]
    with pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=_SCHEMA))


def read(file: Any) -> Partials:
    """Returns what was written to an open file."""
    batch = pa.ipc.open_file(file).get_batch(0)
    found: Partials = {}
    for row in range(batch.num_rows):
        fields = {name: batch.column(name)[row] for name in _SCHEMA.names}
        found[fields["split"].as_py(), fields["column"].as_py()] = Partial(
            count=fields["count"].as_py(),
            missing=fields["missing"].as_py(),
            not_finite=fields["not_finite"].as_py(),
            moments=Moments(*json.loads(fields["moments"].as_py())),
            sketch=Sketch(
                fields["buckets"].values.to_numpy(),
                fields["bucket_counts"].values.to_numpy(),
                fields["cut"].as_py(),
            ),
            values=_read_counts(fields),
        )
    lengths = [key for key in found if key[1].endswith(_LENGTHS)]
    for split, name in lengths:
        key = (split, name.removesuffix(_LENGTHS))
        found[key] = dataclasses.replace(found[key], lengths=found.pop((split, name)))
    return found


def _list_fields(partial: Partial) -> dict[str, Any]:
    """Returns the fields of a row behind split and column, in the order of the schema."""
    numbers, sketch, counts = partial.moments, partial.sketch, partial.values
    exact = [numbers.count, numbers.total, numbers.squares, numbers.least, numbers.greatest]
    values: dict[str, list[Any] | None] = dict.fromkeys(_VALUES)
    if counts:
        kind = type(next(iter(counts)))
        values[next(name for name, known in _VALUES.items() if known is kind)] = list(counts)
    return {
        "count": partial.count,
        "missing": partial.missing,
        "not_finite": partial.not_finite,
        "moments": json.dumps(exact),
        "buckets": sketch.buckets,
        "bucket_counts": sketch.counts,
        "cut": sketch.cut,
        **values,
        "value_counts": None if counts is None else list(counts.values()),
    }


def _read_counts(fields: dict[str, pa.Scalar]) -> Counts:
    counts = fields["value_counts"].as_py()
    if counts is None:
        return None
    every = (fields[name].as_py() for name in _VALUES)
    values: list[int | str] = next((found for found in every if found is not None), [])
    return collections.Counter(dict(zip(values, counts, strict=True)))
