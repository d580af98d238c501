"""Records to tensors: one declaration of columns, parsed alike in training and in serving."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import Column
from trainer.features import lists, names

Tensors = dict[str, tf.Tensor]

_OF_STRING = 24  # bytes of a string beside its text, tsl/platform/ctstring_internal.h
_STORED = {
    "uint8": tf.string,
    "image": tf.string,
    "string": tf.string,
    "int64": tf.int64,
    "float32": tf.float32,
}


def build_parsing_spec(columns: Mapping[str, Column]) -> dict[str, Any]:
    """Returns what `tf.io.parse_example` needs to read the columns.

    A uint8 column is stored as one string of bytes, whatever its shape. A column that may be
    missing is absent from such records and becomes `Column.stands_for_missing`. A list is ragged;
    one that is absent is empty.
    """
    # One for all that have the same: as many constants as columns would be most of a wide graph.
    defaults: dict[Any, tf.Tensor] = {}
    return {name: _build_feature(column, defaults) for name, column in columns.items()}


def build_stored_specs(columns: Mapping[str, Column]) -> dict[str, tf.TensorSpec]:
    """Returns the shape and type of each column as a caller of an exported model feeds it: lists
    `[batch, any]`, padded with `Column.stands_for_missing`."""
    return {
        name: tf.TensorSpec(
            [None, None] if column.list else [None, *_get_stored_shape(column)],
            _STORED[column.type],
        )
        for name, column in columns.items()
    }


def get_parsed_type(column: Column) -> tuple[tuple[int, ...], tf.DType]:
    """Returns shape and type of a value of the column, as `parse` gives it."""
    if column.list:
        return (column.max_items or 0,), _STORED[column.type]
    return column.shape, tf.uint8 if column.type == "uint8" else _STORED[column.type]


def count_bytes(columns: Mapping[str, Column]) -> int:
    """Returns the bytes of a record's values, as `parse` gives them; of texts, without what is in
    them."""
    types = map(get_parsed_type, columns.values())
    return sum(
        math.prod(shape) * (_OF_STRING if dtype == tf.string else dtype.size)
        for shape, dtype in types
    )


def _get_stored_shape(column: Column) -> tuple[int, ...]:
    return () if column.type == "uint8" else column.shape


def _build_feature(column: Column, defaults: dict[Any, tf.Tensor]) -> Any:
    dtype = _STORED[column.type]
    if column.list:
        return tf.io.RaggedFeature(dtype)
    shape, stand_in = _get_stored_shape(column), None
    if column.missing == "allow":
        stand_in = column.stands_for_missing
    # NaN is equal to nothing, its text is.
    key = dtype, shape, repr(stand_in)
    if key not in defaults:
        # Without an element it is none, to the op.
        given = [] if stand_in is None else np.full(shape, stand_in).tolist()
        defaults[key] = tf.constant(given, dtype)
    return tf.io.FixedLenFeature(shape, dtype, defaults[key])


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def parse(serialized: tf.Tensor, columns: Mapping[str, Column]) -> Tensors:
    """Parses a batch of serialized `tf.train.Example`, `[batch]` strings, in one op."""
    stored = tf.io.parse_example(serialized, build_parsing_spec(columns))
    return {name: decode(stored[name], column) for name, column in columns.items()}


def decode(stored: tf.Tensor, column: Column) -> tf.Tensor:
    """Turns a stored batch into values, `[batch, *shape]` of the column's type.

    Of lists, ragged or padded, it returns the first `max_items` of each, or with `on_longer:
    keep_last` the last, `[batch, max_items]`, with `Column.stands_for_missing` behind them. Raises
    `InvalidArgumentError` when run, if bytes do not have the length the shape asks for.
    """
    if column.list:
        return _pad(stored, column)
    if column.type != "uint8":
        return stored
    # Not -1: two strings of half the length would pass for one value.
    return tf.reshape(tf.io.decode_raw(stored, tf.uint8), [tf.size(stored), *column.shape])


def _pad(stored: tf.Tensor | tf.RaggedTensor, column: Column) -> tf.Tensor:
    stand_in = column.stands_for_missing
    if not isinstance(stored, tf.RaggedTensor):
        stored = lists.make_ragged(stored, stand_in)
    if column.on_longer == "keep_last":
        stored = stored[:, -(column.max_items or 0) :]
    return stored.to_tensor(stand_in, shape=[None, column.max_items])


def build_serving_inputs(
    columns: Mapping[str, Column], parts: Iterable[Mapping[str, Column]] | None = None
) -> tuple[tf.Tensor, Tensors]:
    """Returns what callers of the exported model feed: serialized Examples, or stored columns.

    The first is `[batch]` strings; where a column is not fed, it is what they hold. What needs the
    columns of one of the `parts` alone takes Examples without the others.
    """
    serialized = tf.compat.v1.placeholder(tf.string, [None], name="input/examples")
    stored: dict[str, Any] = {}
    for part in [columns] if parts is None else parts:
        stored |= tf.io.parse_example(serialized, build_parsing_spec(part))
    specs = build_stored_specs({name: column for name, column in columns.items() if column.list})
    fed = {name: decode(x, columns[name]) if name in specs else x for name, x in stored.items()}
    shapes = {name: specs[name].shape if name in specs else x.shape for name, x in fed.items()}
    return serialized, _build_placeholders(fed, shapes)


def _build_placeholders(defaults: Tensors, shapes: Mapping[str, tf.TensorShape]) -> Tensors:
    """Returns a placeholder for each column, which is as its default where it is not fed.

    All are added as one graph: one by one those of 10,000 columns took two seconds.
    """
    graph = tf.compat.v1.get_default_graph()
    # Without its versions they would be taken for ops of the first TensorFlow.
    added = tf.compat.v1.GraphDef(versions=graph.graph_def_versions)
    ops = {name: graph.unique_name(names.name_op(name)) for name in defaults}
    for name, default in defaults.items():
        node = added.node.add(name=ops[name], op="PlaceholderWithDefault", input=[default.name])
        node.attr["dtype"].type = default.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(shapes[name].as_proto())
    given = {default.name: default for default in defaults.values()}
    tf.import_graph_def(added, input_map=given, name="")
    return {name: graph.get_tensor_by_name(f"{op}:0") for name, op in ops.items()}
