"""Declared columns as Arrow types and NumPy arrays."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline import config
from preprocessing.arrow import arrow_types


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
def test_declared_columns_have_arrow_types(column, expected):
    assert arrow_types.arrow_type(config.Column(**column)) == expected
    assert arrow_types.arrow_schema({"x": config.Column(**column)}).field("x").type == expected


def test_arrays_have_one_row_for_each_record():
    lists = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    column = config.Column(type="float32", shape=(2,))
    assert arrow_types.extract_numbers(lists.slice(1), column).tolist() == [[3, 4], [5, 6]]
    images = pa.array([b"\0\1", b"\2\3", b"\4\5"], pa.binary(2))
    column = config.Column(type="uint8", shape=(2,))
    assert arrow_types.extract_numbers(images.slice(1, 1), column).tolist() == [[2, 3]]
    assert arrow_types.extract_numbers(images.slice(0, 0), column).shape == (0, 2)
