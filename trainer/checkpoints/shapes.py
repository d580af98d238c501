"""Whether the variables of a graph have the shapes in which a checkpoint has them
(docs/tensorflow-pitfalls.md#other-shapes)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import checkpoint_files

_v1 = tf.compat.v1


class OtherShapes(errors.UsageError):
    """A checkpoint is of a model whose variables have other shapes; the text names one."""


class ShapesHook(tf.compat.v1.train.SessionRunHook):
    """Looks at the graph before a checkpoint is restored into it."""

    def __init__(self, find: Callable[[], str | None]) -> None:
        """`find` returns the path prefix of the checkpoint, or `None` if there is none yet."""
        self._find = find

    def begin(self) -> None:
        """Raises `OtherShapes` if a variable has another shape than what it is restored from."""
        savers = _v1.get_collection(_v1.GraphKeys.SAVERS)
        check(self._find(), _list_restored(savers[0] if savers else None))


def check(checkpoint: str | None, variables: Iterable[tuple[str, Any]]) -> None:
    """Raises `OtherShapes` if one of `variables`, each with its name in the checkpoint, has another
    shape there. One that is not there, or cannot be read, is left to who restores it."""
    if checkpoint is None:
        return
    with contextlib.suppress(errors.DataError), checkpoint_files.open_checkpoint(checkpoint) as of:
        for name, variable in variables:
            part = getattr(variable, "_save_slice_info", None)
            now = tf.TensorShape(variable.shape if part is None else part.full_shape)
            if name in of and not now.is_compatible_with(of.get_shape(name)):
                raise OtherShapes(
                    f"checkpoint {checkpoint!r}: is of another model: its {name} has the shape "
                    f"{list(of.get_shape(name))}, that of the model now {now.as_list()}. Change "
                    "the model back, or choose a new RUN="
                )


def _list_restored(saver: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a Saver restores, each after its name in checkpoints."""
    names = _list_names(saver)
    for variable in map(_get_first, _v1.global_variables()):
        if names is None:
            yield _get_own_name(variable), variable
        elif variable.op.name in names:
            yield names[variable.op.name], variable


def _list_names(saver: Any) -> dict[str, str] | None:
    """Returns the name in checkpoints of each variable a Saver was given, by that in the graph;
    `None` if it restores all under their own, as Estimator's does, which is not built yet."""
    if saver is None:
        return None
    if not isinstance(saver, _v1.train.Saver) or saver._reshape:
        return {}  # it restores objects, or gives what it reads the shape of the variable
    given = saver._var_list
    if given is None:  # one of a graph that was imported knows its names, and does not tell them
        return None if saver.saver_def is None else {}
    pairs = given.items() if isinstance(given, dict) else ((None, one) for one in given)
    found = {}
    for name, one in pairs:
        for variable in tf.nest.flatten(getattr(one, "_variable_list", one)):
            if isinstance(variable, tf.Variable):
                variable = _get_first(variable)
                found[variable.op.name] = name or _get_own_name(variable)
    return found


def _get_first(variable: Any) -> Any:
    """Returns the first of replicas, or the variable itself."""
    return getattr(variable, "values", [variable])[0]


def _get_own_name(variable: Any) -> str:
    """Returns what a variable is called in checkpoints: of a part, the name of the whole."""
    part = getattr(variable, "_save_slice_info", None)
    name: str = variable.op.name if part is None else part.full_name
    return name
