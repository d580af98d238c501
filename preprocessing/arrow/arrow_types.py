"""The declared columns as Arrow types, and their values as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline import config

_ELEMENTS = {
    "int64": pa.int64(),
    "float32": pa.float32(),
    "string": pa.string(),
    "image": pa.binary(),
}


def arrow_type(column: config.Column) -> pa.DataType:
    """Returns the type of a column in a batch.

    `image` is binary, `uint8` is one binary of `size` bytes a row; the others are plain, or a list:
    of fixed length if the column has a shape, of any length if it is a list.
    """
    if column.type == "uint8":
        return pa.binary(column.size)
    element = _ELEMENTS[column.type]
    if column.list:
        return pa.list_(element)
    return pa.list_(element, column.size) if column.shape else element


def arrow_schema(columns: Mapping[str, config.Column]) -> pa.Schema:
    """Returns the schema every batch of a source must have."""
    return pa.schema([(name, arrow_type(column)) for name, column in columns.items()])


def extract_numbers(array: pa.Array, column: config.Column) -> np.ndarray:
    """Returns the values of a numeric column, which is no list, as an array of shape
    [rows, column.size]."""
    if column.type == "uint8":
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        flat = data[array.offset * column.size : (array.offset + len(array)) * column.size]
    elif column.shape:
        flat = array.flatten().to_numpy()
    else:
        flat = array.to_numpy()
    return flat.reshape(len(array), column.size)
