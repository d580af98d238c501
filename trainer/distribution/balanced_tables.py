"""Tables cut over parameter servers so that each server gets its share of the requests.

A cut variable whose rows are looked up is a `BalancedTable`: its parts hold the rows as `RowBlocks`
says. Lookups, conversions to a tensor, checkpoints and warm starts see the order of the table, so
models and checkpoints do not know of it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import embedding_ops, init_ops, init_ops_v2
from tensorflow.python.ops.variables import PartitionedVariable

from trainer.distribution.row_blocks import RowBlocks

_v1 = tf.compat.v1
_Slice: Any = tf.Variable.SaveSliceInfo
# What draws its values, or gives all rows the same: it does not matter which rows a part has.
_DRAWN = (init_ops.Initializer, init_ops_v2.Initializer, tf.keras.initializers.Initializer)
_NOT_DRAWN = ("Identity", "Orthogonal")
# What draws by the numbers of inputs and outputs, of a kernel.
_SCALED = (init_ops_v2.VarianceScaling, tf.keras.initializers.VarianceScaling)
# What layers call a matrix that is multiplied, of which all rows are asked for.
_KERNEL = "kernel"
# What the Keras layer `Embedding` calls its table.
_KERAS_TABLE = "embeddings"


class PartOfTable(tf.Variable.SaveSliceInfo):
    """What a part of a table says of itself; `layout` has its rows."""

    def __init__(self, plain: Any, part: int, layout: RowBlocks) -> None:
        super().__init__(plain.full_name, plain.full_shape, plain.var_offset, plain.var_shape)
        self.part, self.layout = part, layout

    def list_block_slices(self, full_name: str) -> list[Any]:
        """Returns for each block of the part what it is of the whole, which is `full_name`, in
        checkpoints: of the table, or of what an optimizer remembers of each row."""
        shape = list(self.full_shape)
        rest = [0] * (len(shape) - 1)
        return [
            _Slice(full_name, shape, [block.first, *rest], [block.size, *shape[1:]])
            for block in self.layout.list_part_blocks(self.part)
        ]


def find_part(variable: Any) -> PartOfTable | None:
    """Returns what a variable is of a balanced table, `None` if it is no part of one."""
    found = getattr(variable, "_save_slice_info", None)
    return found if isinstance(found, PartOfTable) else None


class BalancedTable(PartitionedVariable):
    """A cut variable whose parts have rows of all frequencies."""

    def __init__(self, cut: Any) -> None:
        parts = list(cut)
        if find_part(parts[0]) is None:
            turn = zlib.crc32(parts[0]._save_slice_info.full_name.encode())
            layout = RowBlocks(int(cut.get_shape()[0]), len(parts), turn=turn)
            for number, part in enumerate(parts):
                part._set_save_slice_info(PartOfTable(part._save_slice_info, number, layout))
        shape = parts[0]._save_slice_info.full_shape
        super().__init__(cut.name, shape, cut.dtype, parts, cut._get_partitions())

    @property
    def layout(self) -> RowBlocks:
        """Which rows are where."""
        found = find_part(self._variable_list[0])
        assert found is not None
        return found.layout

    def get_shape(self) -> tf.TensorShape:
        """Returns that of the whole table."""
        return tf.TensorShape(self._shape)

    def _concat(self) -> tf.Tensor:
        return self.layout.join(self._variable_list)

    def _apply_assign_fn(self, assign_fn: Any, value: Any) -> Any:
        if not isinstance(value, list | PartitionedVariable):
            value = self.layout.cut(value)
        return super()._apply_assign_fn(assign_fn, value)


def balance(variable: Any, *, initializer: Any) -> Any:
    """Returns a variable as it is, or if it is a table in parts, balanced. Values that differ by
    row, such as those of a trained table, stay where TensorFlow's slices put them."""
    is_table = isinstance(variable, PartitionedVariable) and len(variable.get_shape()) == 2
    if not is_table or len(list(variable)) < 2 or is_kernel(variable.name):
        return variable
    known = find_part(next(iter(variable))) is not None
    return BalancedTable(variable) if known or _is_drawn(initializer) else variable


def can_be_cut(initializer: Any) -> bool:
    """Tells if parts can get the values that they would have in the whole."""
    # TensorFlow gives each part of a constant all of its rows, and takes each for an identity.
    of_whole = type(initializer).__name__ in _NOT_DRAWN
    return not of_whole and np.ndim(getattr(initializer, "value", 0)) == 0


def cut_initializer(initializer: Any) -> Any:
    """Returns what gives each part of a cut variable its values in the place of `initializer`.

    Those of Keras, which `tf.compat.v1.layers` have too, must be told that it is a part: without
    it they give all parts of one shape the same values. Even then some scale them by its shape.
    """
    if not _takes_parts(initializer):
        return initializer

    def initialize_part(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        if partition_info is None or list(partition_info.full_shape) == list(shape):
            return initializer(shape, dtype=dtype)
        whole, first = partition_info.full_shape, partition_info.var_offset
        if isinstance(initializer, _SCALED):
            return tf.slice(initializer(whole, dtype=dtype), first, shape)
        return initializer(
            whole, dtype=dtype, partition_shape=tuple(shape), partition_offset=tuple(first)
        )

    return initialize_part


def _takes_parts(initializer: Any) -> bool:
    return _is_of_library(initializer) and "kwargs" in inspect.signature(initializer).parameters


def _is_of_library(initializer: Any) -> bool:
    return isinstance(initializer, _DRAWN) and type(initializer).__module__.startswith(
        ("keras.", "tensorflow.")
    )


def is_kernel(name: str) -> bool:
    """Tells if a variable of this name is a matrix that is multiplied, not a table."""
    return name.endswith(_KERNEL)


def _is_drawn(initializer: Any) -> bool:
    if initializer is None:
        return True
    return _is_of_library(initializer) and can_be_cut(initializer)


@contextlib.contextmanager
def patch_lookups() -> Iterator[None]:
    """Has lookups within the block find the rows of balanced tables.

    Every lookup of TensorFlow, of feature columns and of Keras ends in one function, which takes
    the parts for consecutive rows. There is no public way to tell it otherwise: its dispatch asks
    for a composite tensor, which a variable in parts is not.
    """
    plain = embedding_ops._embedding_lookup_and_transform

    def look_up(params: Any, ids: Any, partition_strategy: str = "mod", **kwargs: Any) -> Any:
        parts = list(params) if isinstance(params, PartitionedVariable | list | tuple) else [params]
        part = find_part(parts[0]) if parts else None
        if part is not None and len(parts) == part.layout.parts:
            ids, partition_strategy = part.layout.find_places(tf.convert_to_tensor(ids)), "div"
        return plain(params, ids, partition_strategy, **kwargs)

    with mock.patch.object(embedding_ops, "_embedding_lookup_and_transform", look_up):
        yield


@contextlib.contextmanager
def cut_keras_tables(parts_of: Callable[..., Sequence[int]]) -> Iterator[None]:
    """Cuts the tables of Keras layers `Embedding` that are made within the block; Keras itself has
    no partitioner. `parts_of` gets the name of a table, its shape and its type, and returns the
    number of parts along each axis."""

    def create(make: Any, **kwargs: Any) -> Any:
        value = kwargs.get("initial_value")
        if kwargs.get("name") != _KERAS_TABLE or not isinstance(value, functools.partial):
            return make(**kwargs)
        name = _v1.get_default_graph().unique_name(_KERAS_TABLE, mark_as_used=False)
        parts = parts_of(name, tf.TensorShape(value.args[0]), tf.as_dtype(kwargs["dtype"]))
        return make(**kwargs) if max(parts) < 2 else _cut(kwargs, value.func, parts)

    with tf.variable_creator_scope(create):
        yield


def _cut(wanted: dict[str, Any], initializer: Any, parts: Any) -> Any:
    """Returns the variable that Keras wants, in parts, with the name that it would have."""
    shape = tf.TensorShape(wanted["initial_value"].args[0])
    name = _v1.get_default_graph().unique_name(wanted["name"])

    def initialize_slice(shape: Any, dtype: Any, partition_info: Any) -> Any:
        whole, first = partition_info.full_shape, partition_info.var_offset
        return tf.slice(initializer(whole, dtype=dtype), first, shape)

    by_part = _takes_parts(initializer) and can_be_cut(initializer)

    outermost = _v1.VariableScope(False, "", use_resource=True)
    with tf.name_scope(""), _v1.variable_scope(outermost, auxiliary_name_scope=False):
        made = _v1.get_variable(
            name,
            shape,
            tf.as_dtype(wanted["dtype"]),
            cut_initializer(initializer) if by_part else initialize_slice,
            trainable=wanted["trainable"],
            collections=wanted["collections"],
            constraint=wanted["constraint"],
            partitioner=lambda *_, **__: parts,
        )
    return balance(made, initializer=initializer)
