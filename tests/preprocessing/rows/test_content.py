"""The hash of what is in a row: of the record alone, and another for each other record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline import config
from preprocessing.arrow import arrow_types
from preprocessing.rows import content
from preprocessing.shards import encode

_VALUES = {
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), None],
    "float32": [0.0, -0.0, 1.0, float("nan"), float("-inf"), None],
    "string": ["", "a", "ab", "x" * 300, "ä", None],
    "image": [b"", b"a", b"\0", b"\0\0", b"x" * 70_000, b"y"],
}


def _batch(**columns: tuple[dict, list]) -> tuple[pa.RecordBatch, dict[str, config.Column]]:
    declared = {name: config.Column(**kind) for name, (kind, _) in columns.items()}
    wanted = arrow_types.arrow_schema(declared)
    arrays = [pa.array(values, wanted.field(n).type) for n, (_, values) in columns.items()]
    return pa.record_batch(arrays, wanted), declared


@pytest.mark.parametrize("kind", _VALUES)
def test_different_values_of_a_column_differ(kind):
    batch, columns = _batch(x=({"type": kind}, _VALUES[kind]), y=({"type": "int64"}, [7] * 6))
    assert len(set(content.hash_rows(batch, columns).tolist())) == 6


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int64", [[1, 2, 3], [1, 3, 2], [0, 2, 3], None]),
        ("float32", [[1, 2, 3], [1, 3, 2], [0, 2, 3], None]),
        ("string", [["a", "", "b"], ["", "a", "b"], ["a", "b", ""], None]),
        ("uint8", [b"\0\0\1", b"\0\1\0", b"\1\0\0", b"\0\0\0"]),
    ],
)
def test_lists_differ_by_what_is_where(kind, values):
    batch, columns = _batch(x=({"type": kind, "shape": [3]}, values))
    assert len(set(content.hash_rows(batch, columns).tolist())) == 4


def test_the_same_rows_are_equal_however_they_are_cut_and_columns_ordered():
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in rng.integers(0, 40, 200)]
    batch, columns = _batch(
        a=({"type": "int64"}, rng.integers(0, 5, 200)),
        b=({"type": "string"}, names),
        c=({"type": "float32"}, [None if i % 7 == 0 else i % 3 for i in range(200)]),
    )
    whole = content.hash_rows(batch, columns)
    parts = [content.hash_rows(batch.slice(at, 9), columns) for at in range(0, 200, 9)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = dict(reversed(columns.items()))
    np.testing.assert_array_equal(content.hash_rows(batch.select(list(other)), other), whole)
    payloads = encode.encode(batch, columns).to_pylist()
    assert len(set(zip(payloads, whole.tolist(), strict=True))) == len(set(payloads))
    assert len(set(whole.tolist())) == len(set(payloads))


@pytest.mark.parametrize("kind", ["int64", "float32", "string", "image"])
@pytest.mark.parametrize("rows", [0, 3])
def test_nothing_but_missing_values(kind, rows):
    shapes = [()] if kind == "image" else [(), (2,)]
    batch, columns = _batch(
        **{f"x{len(s)}": ({"type": kind, "shape": s}, [None] * rows) for s in shapes}
    )
    assert len(content.hash_rows(batch, columns)) == rows
    assert len(set(content.hash_rows(batch, columns).tolist())) <= 1


def test_copies_have_keys_of_their_own():
    contents = np.array([5, 5, 6], np.uint64)
    first = content.build_keys(contents).to_pylist()
    copies = content.build_keys(contents, np.array([1, 2, 1], np.uint64)).to_pylist()
    assert first == [b"\5" + bytes(7), b"\5" + bytes(7), b"\6" + bytes(7)]
    assert len({*first, *copies}) == 5


def test_hashes_are_what_they_were():
    # Golden: other numbers here would move users' rows between train and eval.
    batch, columns = _batch(
        a=({"type": "int64"}, [1, 2]),
        b=({"type": "string", "missing": "allow"}, ["a", None]),
        c=({"type": "float32", "shape": [3]}, [[1, 2, 3], [4, 5, 6]]),
    )
    assert content.hash_rows(batch, columns).tolist() == [3440964688727049460, 13002208783105566086]


def test_lists_are_their_items_in_order():
    columns = {"x": config.Column(type="string", list=True, max_items=3)}

    def of(*found):
        return content.hash_rows(
            pa.record_batch([pa.array(found, pa.list_(pa.string()))], ["x"]), columns
        )

    different = of(["a", "b"], ["b", "a"], ["ab"], ["a"], [], None, ["a", "b", "b"])
    assert len(set(different.tolist())) == 7
    assert of(["z"], ["a", "b"], [])[1:].tolist() == [different[0], different[4]]
