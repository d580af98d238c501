"""Values stay what they are, in types that can be worked on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.arrow import plain_types

_NS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("array", "wanted", "values"),
    [
        (pa.array([1001, None], _NS), "string", ["1970-01-01 00:00:00.000001001", None]),
        (pa.array([1001, None], _NS), "int64", [1001, None]),
        (pa.array([1001], pa.duration("ns")), "string", [1001]),
        (pa.array([1], pa.date32()), "string", ["1970-01-02"]),
        (pa.array([[1001], None], pa.list_(_NS)), "int64", [[1001], None]),
        (pa.array([["a"]], pa.large_list(pa.string_view())), "string", [["a"]]),
        (pa.array([["a"]], pa.list_(pa.string_view(), 1)), "string", [["a"]]),
        (pa.array(np.array([1.5], np.float16)), "float32", [1.5]),
        (pa.array([b"a"], pa.binary_view()), "string", [b"a"]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
            "string",
            [b"0" * 16],
        ),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_types_that_little_can_be_done_with(array, wanted, values):
    assert plain_types.cast(array, wanted).to_pylist() == values


def test_others_are_not_touched():
    for array in (pa.array([1]), pa.array(["a"]), pa.array([[1.5]]), pa.nulls(2)):
        assert plain_types.cast(array, "int64") is array


def test_days_are_no_numbers():
    days = pa.array([1], pa.date32())
    assert plain_types.cast(days, "int64") is days
