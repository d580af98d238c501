"""What rows must be to become records."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from pipeline import config, errors
from preprocessing import schema
from preprocessing.sources import base


def _rows(array: pa.Array, first_row: int = 100) -> base.Rows:
    keys = pa.array([b"k"] * len(array))
    return base.Rows(keys, pa.record_batch([array], names=["x"]), first_row, {"x": "in/file"})


def _check(array: pa.Array, **column) -> None:
    schema.check(_rows(array), {"x": config.Column(**column)})


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"type": "uint8", "shape": (2, 3)}, pa.binary(6)),
        ({"type": "uint8"}, pa.binary(1)),
        ({"type": "int64"}, pa.int64()),
        ({"type": "float32", "shape": (4,)}, pa.list_(pa.float32(), 4)),
        ({"type": "string", "shape": (1,)}, pa.list_(pa.string(), 1)),
    ],
)
def test_types(column, expected):
    assert schema.arrow_type(config.Column(**column)) == expected
    assert schema.arrow_schema({"x": config.Column(**column)}).field("x").type == expected


def test_values_have_a_row_for_each_row():
    lists = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    column = config.Column(type="float32", shape=(2,))
    assert schema.values(lists.slice(1), column).tolist() == [[3, 4], [5, 6]]
    images = pa.array([b"\0\1", b"\2\3", b"\4\5"], pa.binary(2))
    column = config.Column(type="uint8", shape=(2,))
    assert schema.values(images.slice(1, 1), column).tolist() == [[2, 3]]
    assert schema.values(images.slice(0, 0), column).shape == (0, 2)


def test_good_rows_pass():
    _check(pa.array([0, 9, 5]), type="int64", min=0, max=9)
    _check(pa.array(["a", ""]), type="string")
    _check(pa.array([math.nan], pa.float32()), type="float32")


@pytest.mark.parametrize("bad", [-1, 10, 255])
def test_a_value_out_of_range_is_named_with_file_and_row(bad):
    with pytest.raises(
        errors.DataError,
        match=rf"'in/file': row 102: column 'x' is {bad}, allowed is 0 to 9",
    ):
        _check(pa.array([0, 9, bad, 77]), type="int64", min=0, max=9)


@pytest.mark.parametrize(
    ("bounds", "allowed"), [({"min": 2}, "2 or more"), ({"max": 0.5}, "0.5 or less")]
)
def test_one_sided_ranges(bounds, allowed):
    with pytest.raises(errors.DataError, match=f"column 'x' is 1.0, allowed is {allowed}"):
        _check(pa.array([1.0], pa.float32()), type="float32", **bounds)


def test_nan_is_out_of_every_range():
    with pytest.raises(errors.DataError, match="row 101: column 'x' is nan"):
        _check(pa.array([1.0, math.nan], pa.float32()), type="float32", min=0)


def test_a_pixel_out_of_range_names_its_row():
    images = pa.array([bytes(4), bytes(4), bytes([0, 0, 201, 0])], pa.binary(4))
    with pytest.raises(errors.DataError, match="row 102: column 'x' is 201, allowed is 200 or"):
        _check(images, type="uint8", shape=(2, 2), max=200)


def test_other_types_and_missing_values_are_refused():
    with pytest.raises(errors.DataError, match="column 'x' is double, the config declares float"):
        _check(pa.array(np.zeros(2)), type="float32")
    with pytest.raises(errors.DataError, match=r"is fixed_size_binary\[2\], the config declares"):
        _check(pa.array([b"ab"], pa.binary(2)), type="uint8", shape=(3,))
    with pytest.raises(errors.DataError, match="row 101: column 'x' has no value"):
        _check(pa.array([1, None]), type="int64")
