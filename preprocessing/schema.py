"""The declared columns as Arrow types, and the check that rows really are what was declared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline import config, errors
from preprocessing.sources.base import Rows

_ELEMENTS = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.string()}


def arrow_type(column: config.Column) -> pa.DataType:
    """Returns the type of a column in a batch.

    `uint8` is one binary of `size` bytes a row; the others are plain, or a list of fixed length
    if the column has a shape.
    """
    if column.type == "uint8":
        return pa.binary(column.size)
    element = _ELEMENTS[column.type]
    return pa.list_(element, column.size) if column.shape else element


def arrow_schema(columns: Mapping[str, config.Column]) -> pa.Schema:
    """Returns the schema every batch of a source must have."""
    return pa.schema([(name, arrow_type(column)) for name, column in columns.items()])


def values(array: pa.Array, column: config.Column) -> np.ndarray:
    """Returns the values of a numeric column as an array of shape [rows, column.size]."""
    if column.type == "uint8":
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        flat = data[array.offset * column.size : (array.offset + len(array)) * column.size]
    elif column.shape:
        flat = array.flatten().to_numpy()
    else:
        flat = array.to_numpy()
    return flat.reshape(len(array), column.size)


def check(rows: Rows, columns: Mapping[str, config.Column]) -> None:
    """Refuses rows that are not what the config declares.

    Raises `DataError` naming file, row, value and what is allowed.
    """
    for name, column in columns.items():
        array = rows.batch.column(name)
        if array.type != arrow_type(column):
            raise errors.DataError(
                f"{rows.where(name, 0)}: column {name!r} is {array.type}, "
                f"the config declares {arrow_type(column)}"
            )
        if array.null_count:
            row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise errors.DataError(f"{rows.where(name, row)}: column {name!r} has no value")
        if column.type != "string" and (column.min is not None or column.max is not None):
            _check_range(rows, name, column)


def _check_range(rows: Rows, name: str, column: config.Column) -> None:
    numbers = values(rows.batch.column(name), column)
    good = np.ones(numbers.shape, bool)
    # Written so that a NaN, for which every comparison is false, is outside.
    if column.min is not None:
        good &= numbers >= column.min
    if column.max is not None:
        good &= numbers <= column.max
    if good.all():
        return
    row, place = divmod(int(np.argmin(good)), column.size)
    raise errors.DataError(
        f"{rows.where(name, row)}: column {name!r} is {numbers[row, place]}, {_allowed(column)}"
    )


def _allowed(column: config.Column) -> str:
    if column.max is None:
        return f"allowed is {column.min:g} or more"
    if column.min is None:
        return f"allowed is {column.max:g} or less"
    return f"allowed is {column.min:g} to {column.max:g}"
