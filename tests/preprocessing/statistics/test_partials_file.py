"""Partial statistics come back from their file as they were, to the last bit."""

from __future__ import annotations

import collections
import dataclasses
import io

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.statistics import column_stats, moments, partials_file, quantile_sketch
from tests.preprocessing import tables


def _back(found: column_stats.Partials) -> column_stats.Partials:
    file = io.BytesIO()
    partials_file.write(found, file)
    return partials_file.read(io.BytesIO(file.getvalue()))


def _plain(partial: column_stats.Partial) -> list[object]:
    """All that is in a partial, with the types and bits of its numbers."""
    sketch = partial.sketch
    known = None if partial.values is None else [(repr(v), n) for v, n in partial.values.items()]
    return [
        (partial.count, partial.missing, partial.not_finite, sketch.cut, known),
        repr(dataclasses.astuple(partial.moments)),
        *((a.dtype, a.tolist()) for a in (sketch.buckets, sketch.counts)),
    ]


def _assert_same(found: column_stats.Partials) -> None:
    back = _back(found)
    assert list(back) == list(found)
    assert list(map(_plain, back.values())) == list(map(_plain, found.values()))
    assert all(type(p.values) in (type(None), collections.Counter) for p in back.values())


def test_of_lists():
    columns = {
        "tags": {"type": "string", "list": True, "max_items": 5},
        "label": {"type": "int64"},
    }
    data = tables.make_config("x", columns, label="label").data
    batch = pa.record_batch(
        [pa.array([["a", "b"], [], ["a"]]), pa.array([0, 1, 1])], ["tags", "label"]
    )
    found = column_stats.count_batch(batch, "train", data)
    _assert_same(found)
    back = _back(found)["train", "tags"]
    assert _plain(back.lengths) == _plain(found["train", "tags"].lengths)


def test_of_a_table():
    data = tables.make_config("x", label="label").data
    batch = tables.batch(
        [(i, f"n{i % 7}", i / 3, i % 2) for i in range(500)] + [(9, None, None, 1)]
    )
    found = column_stats.count_batch(batch, "train", data) | column_stats.count_batch(
        batch, "eval", data
    )
    _assert_same(found)
    assert column_stats.finish(_back(found), data) == column_stats.finish(found, data)
    _assert_same(column_stats.turn_into_removals(found))


def test_of_no_row():
    """As of a piece of the raw data all of whose rows are bad."""
    _assert_same({})


@pytest.mark.parametrize(
    "values",
    [None, {}, {3: 1, -(2**63): 2}, {0.1: 5, -0.0: 1}, {"": 1, "ü\0": 2, "NaN": 3, "7": 1}],
)
def test_counted_values(values):
    counts = None if values is None else collections.Counter(values)
    _assert_same({("train", "a"): column_stats.Partial(4, 1, 2, values=counts)})


@pytest.mark.parametrize("seed", range(20))
def test_any_numbers(seed):
    random = np.random.default_rng(seed)
    kind = random.choice(["floats", "integers", "wide"])
    if kind == "floats":
        bits = random.integers(0, 2**32, 30_000).astype(np.uint32)
        values = np.unique(bits.view(np.float32)[np.isfinite(bits.view(np.float32))]) + 0
    else:
        bound = 2**63 - 1 if kind == "wide" else 1000
        values = np.unique(random.integers(-bound, bound, 30_000))
    counts = random.integers(1, 99, len(values))
    partial = column_stats.Partial(
        int(counts.sum()),
        0,
        0,
        moments.compute(values, counts),
        quantile_sketch.build(values, counts),
    )
    _assert_same({("train", "a"): partial, ("test", "b"): column_stats.Partial()})
