"""Records to tensors: one declaration of columns, parsed alike in training and in serving."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.config import Column

Tensors = dict[str, tf.Tensor]

_STORED = {
    "uint8": tf.string,
    "image": tf.string,
    "string": tf.string,
    "int64": tf.int64,
    "float32": tf.float32,
}


def parsing_spec(columns: Mapping[str, Column]) -> dict[str, tf.io.FixedLenFeature]:
    """Returns what `tf.io.parse_example` needs to read the columns.

    A uint8 column is stored as one string of bytes, whatever its shape. A column that may be
    missing is absent from such records and becomes `Column.stands_for_missing`.
    """
    return {name: _feature(column) for name, column in columns.items()}


def _feature(column: Column) -> tf.io.FixedLenFeature:
    shape = () if column.type == "uint8" else column.shape
    default = None
    if column.missing == "allow":
        default = np.full(shape, column.stands_for_missing).tolist()
    return tf.io.FixedLenFeature(shape, _STORED[column.type], default)


def parse(serialized: tf.Tensor, columns: Mapping[str, Column]) -> Tensors:
    """Parses a batch of serialized `tf.train.Example`, `[batch]` strings, in one op."""
    stored = tf.io.parse_example(serialized, parsing_spec(columns))
    return {name: decode(stored[name], column) for name, column in columns.items()}


def decode(stored: tf.Tensor, column: Column) -> tf.Tensor:
    """Turns a stored batch into values, `[batch, *shape]` of the column's type.

    Raises `InvalidArgumentError` when run, if bytes do not have the length the shape asks for.
    """
    if column.type != "uint8":
        return stored
    # Not -1: two strings of half the length would pass for one value.
    return tf.reshape(tf.io.decode_raw(stored, tf.uint8), [tf.size(stored), *column.shape])


def raw_placeholders(columns: Mapping[str, Column]) -> Tensors:
    """Returns one placeholder a column, as a caller of the exported model feeds them."""
    return {
        name: tf.compat.v1.placeholder(
            _STORED[column.type],
            [None, *(() if column.type == "uint8" else column.shape)],
            name=name,
        )
        for name, column in columns.items()
    }
