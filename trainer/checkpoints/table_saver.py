"""Balanced tables in checkpoints: in the order of their rows, as if they were in one piece.

So a checkpoint has what it would have without servers, and any number of servers reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.training.saving import saveable_object

from pipeline import errors
from trainer.distribution import balanced_tables
from trainer.distribution.balanced_tables import PartOfTable

_v1 = tf.compat.v1


class TableSaver(tf.compat.v1.train.Saver):
    """A Saver of all variables of the graph; it is built when all of them are there."""

    _var_list: list[Any] | None

    def __init__(self, config: Any) -> None:
        """`config` is the `RunConfig`; all else is as Estimator's own Saver has it."""
        super().__init__(
            sharded=True,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            defer_build=True,
            save_relative_paths=True,
        )

    def build(self) -> None:
        """Makes the ops that save and restore."""
        if self._var_list is None:
            savers = _v1.get_collection(_v1.GraphKeys.SAVEABLE_OBJECTS)
            self._var_list = [*_build_saveables(_v1.global_variables()), *savers]
        super().build()


def use(config: Any) -> None:
    """Has the graph saved by a `TableSaver` if it has balanced tables.

    Raises `UsageError` if the model brings a Saver of its own, which would write parts as ranges.
    """
    if not _find_tables(_v1.global_variables()):
        return
    savers = _v1.get_collection_ref(_v1.GraphKeys.SAVERS)
    if savers:
        raise errors.UsageError(
            "model: brings a Saver of its own (Scaffold(saver=...)), which cannot save tables that "
            "are cut over parameter servers; leave it out, or set cluster.partition_bytes above "
            "the size of the largest table"
        )
    savers.append(TableSaver(config))


def begin_by_rows() -> None:
    """Has parts of balanced tables that begin with values of a checkpoint begin with those of their
    own rows; TensorFlow gives each part a range of rows."""
    for variable in _v1.global_variables():
        part = balanced_tables.find_part(variable)
        if part is None or variable._initial_value.op.type != "RestoreV2":
            continue
        file, names, _ = variable._initial_value.op.inputs
        slices = [one.spec for one in part.list_block_slices(part.full_name)]
        kind = variable.dtype.base_dtype
        with tf.device(variable.device), tf.device("/cpu:0"):
            pieces = tf.raw_ops.RestoreV2(
                prefix=file,
                tensor_names=tf.repeat(names, len(slices)),
                shape_and_slices=slices,
                dtypes=[kind] * len(slices),
            )
            value = tf.ensure_shape(tf.concat(pieces, axis=0), variable.shape)
        variable._initializer_op = variable.assign(value, read_value=False)
        variable._initial_value = value


def _find_tables(variables: Iterable[Any]) -> dict[str, PartOfTable]:
    """Returns parts of balanced tables, by the name of the variable in the graph."""
    parts = {variable.op.name: balanced_tables.find_part(variable) for variable in variables}
    return {name: part for name, part in parts.items() if part is not None}


def _build_saveables(variables: list[Any]) -> list[Any]:
    tables = _find_tables(variables)
    found = []
    for variable in variables:
        name = variable.op.name
        # What an optimizer remembers of a part is called like it, and something more.
        of = next((table for table in _list_prefixes(name) if table in tables), None)
        info = variable._save_slice_info
        if of is None or info is None or info.var_shape[0] != tables[of].var_shape[0]:
            found.append(variable)
        else:
            found.append(_TablePartSaveable(variable, tables[of]))
    return found


def _list_prefixes(name: str) -> Iterable[str]:
    words = name.split("/")
    return ("/".join(words[:count]) for count in range(len(words), 0, -1))


class _TablePartSaveable(saveable_object.SaveableObject):
    """A variable with a value for each row of a part of a balanced table."""

    def __init__(self, variable: Any, part: PartOfTable) -> None:
        own = variable._save_slice_info
        self._variable, device = variable, variable.device
        self._shapes = [one.var_shape for one in part.list_block_slices(own.full_name)]
        with tf.device(device):
            pieces = part.layout.split(variable.read_value_no_copy(), part.part)
        specs = [
            saveable_object.SaveSpec(piece, one.spec, own.full_name, variable.dtype, device)
            for piece, one in zip(pieces, part.list_block_slices(own.full_name), strict=True)
        ]
        super().__init__(variable.handle, specs, variable.op.name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Returns the op that gives the variable what was read, block by block."""
        with tf.device(self._variable.device):
            pieces = [
                tf.ensure_shape(piece, shape)
                for piece, shape in zip(restored_tensors, self._shapes, strict=True)
            ]
            return self._variable.assign(tf.concat(pieces, axis=0), read_value=False)
