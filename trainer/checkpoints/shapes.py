"""Whether the variables of a graph have the shapes in which a checkpoint has them
(docs/tensorflow-pitfalls.md#other-shapes)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import checkpoint_files
from trainer.checkpoints.table_saver import TableSaver

_v1 = tf.compat.v1


class OtherShapes(errors.UsageError):
    """A checkpoint is of a model whose variables have other shapes; the text names one."""


class ShapesHook(tf.compat.v1.train.SessionRunHook):
    """Looks at the graph before a checkpoint is restored into it."""

    def __init__(self, find: Callable[[], str | None]) -> None:
        """`find` returns the path prefix of the checkpoint, or `None` if there is none yet."""
        self._find = find

    def begin(self) -> None:
        """Raises `OtherShapes` if a trained variable has another shape than in the checkpoint."""
        savers = _v1.get_collection(_v1.GraphKeys.SAVERS)
        # One of the user's own may restore variables from other names.
        if all(isinstance(one, TableSaver) for one in savers):
            check(self._find(), _v1.trainable_variables())


def check(checkpoint: str | None, variables: Iterable[Any]) -> None:
    """Raises `OtherShapes` if one of `variables` has another shape than in the checkpoint. One that
    is not there, or cannot be read, is left to who restores it."""
    if checkpoint is None:
        return
    with contextlib.suppress(errors.DataError), checkpoint_files.open_checkpoint(checkpoint) as of:
        for variable in variables:
            variable = getattr(variable, "values", [variable])[0]  # of replicas, the first
            part = getattr(variable, "_save_slice_info", None)
            name = variable.op.name if part is None else part.full_name
            shape = tuple(variable.shape if part is None else part.full_shape)
            if name in of and of.get_shape(name) != shape:
                raise OtherShapes(
                    f"checkpoint {checkpoint!r}: is of another model: its {name} has the shape "
                    f"{list(of.get_shape(name))}, that of the model now {list(shape)}. Change the "
                    "model back, or choose a new RUN="
                )
