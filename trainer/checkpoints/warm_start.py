"""Parameters that begin with values of another model: a checkpoint, or a SavedModel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.ps_values import AggregatingVariable

from pipeline import errors, storage
from pipeline.config import model_config
from trainer.checkpoints import table_saver

_v1 = tf.compat.v1


def begin(own: Any, settings: model_config.WarmStart | None) -> None:
    """Makes variables of the graph begin with what a model comes with, `own`, which are
    `WarmStartSettings` or `None`; then, and over that, as `begin_with` does.

    The Estimator would do the former last, and in vain where towers share variables.
    """
    if own is not None:
        _call_for_all_replicas(lambda: _v1.train.warm_start(*own))
    if settings is not None:
        begin_with(settings)
    table_saver.begin_by_rows()


def begin_with(settings: model_config.WarmStart) -> list[str]:
    """Makes trainable variables of the graph begin with the values they have in `settings.path`.

    Returns their names. Values of a checkpoint that training continues from come later, and count.
    To be called once a replica. Raises `UsageError` if the path is neither, if nothing fits, or if
    shapes differ.
    """
    names: list[str] = _call_for_all_replicas(lambda: _begin_with(settings))
    return names


def _call_for_all_replicas(begins: Callable[[], Any]) -> Any:
    """Calls a function once for all replicas: for one, copies of others have other names."""

    def call_merged(_: Any) -> Any:
        result = begins()
        for variable in _v1.global_variables():
            if isinstance(variable, AggregatingVariable) and "_initializer_op" in vars(variable):
                # It was set where it has no effect: not at what is wrapped for towers.
                variable.get()._initializer_op = variable._initializer_op
        return result

    return tf.distribute.get_replica_context().merge_call(call_merged)


def _begin_with(settings: model_config.WarmStart) -> list[str]:
    key, checkpoint = "model.warm_start", _find_checkpoint(settings.path)
    there = dict(tf.train.list_variables(checkpoint))
    for old in settings.names.values():
        if old not in there:
            raise errors.UsageError(
                f"{key}.names: {settings.path!r} has no {old!r}{errors.suggest(old, there)}"
            )
    mine = _list_variables()
    for new in settings.names:
        if new not in mine:
            raise errors.UsageError(
                f"{key}.names: the model has no {new!r}{errors.suggest(new, mine)}"
            )
    found = {
        new: settings.names.get(new, new)
        for new in mine
        if re.match(settings.variables, new) and settings.names.get(new, new) in there
    }
    if not found:
        raise errors.UsageError(
            f"{key}: {settings.path!r} has no variable of the model that matches "
            f"{settings.variables!r}; it has {', '.join(sorted(there)[:5])}, the model "
            f"{', '.join(sorted(mine)[:5])}; map them with names"
        )
    for new, old in found.items():
        shape = _get_shape(mine[new])
        if shape != there[old]:
            raise errors.UsageError(
                f"{key}: {new!r} has shape {shape}, {old!r} in {settings.path!r} {there[old]}; "
                "leave it out with variables"
            )
    _v1.train.init_from_checkpoint(checkpoint, {old: mine[new] for new, old in found.items()})
    return sorted(found)


def _find_checkpoint(path: str) -> str:
    """Returns the prefix of the variables' files."""
    inside = storage.join(path, "variables", "variables")
    candidates = [inside, path] if storage.exists(inside + ".index") else [path]
    if storage.exists(candidates[0] + ".index"):
        return candidates[0]
    newest = tf.train.latest_checkpoint(path)
    if newest is None:
        raise errors.UsageError(
            f"model.warm_start.path: {path!r} is neither a checkpoint such as "
            "model.ckpt-500, nor a folder of checkpoints, nor a SavedModel"
        )
    return str(newest)


def _list_variables() -> dict[str, Any]:
    """Returns trainable variables by their names in checkpoints; of cut ones, all parts."""
    found: dict[str, Any] = {}
    for variable in _v1.trainable_variables():
        part = getattr(variable, "_save_slice_info", None)
        if part is None:
            found[variable.op.name] = variable
        else:
            found.setdefault(part.full_name, []).append(variable)
    return found


def _get_shape(variable: Any) -> list[int]:
    if isinstance(variable, list):
        return list(variable[0]._save_slice_info.full_shape)
    return list(variable.shape.as_list())
