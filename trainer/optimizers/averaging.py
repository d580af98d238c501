"""Moving averages of parameters: what is evaluated and exported in place of the parameters.

Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1
_TRAIN = tf.estimator.ModeKeys.TRAIN


def average_parameters(spec: Any, mode: str, decay: float, *, updates: bool) -> Any:
    """Returns the spec with averages kept in training, and used elsewhere.

    At step s the decay is min(decay, (1 + s) / (10 + s)), so that early parameters are soon
    forgotten. Of processes that step together one updates the averages: the one with `updates`.
    """
    variables = _v1.trainable_variables()
    step = _v1.train.get_or_create_global_step()
    average = tf.train.ExponentialMovingAverage(decay, num_updates=step)
    if mode != _TRAIN:
        saver = _v1.train.Saver(_map_restored(variables), sharded=True)
        scaffold = spec.scaffold or _v1.train.Scaffold()
        return spec._replace(scaffold=_v1.train.Scaffold(saver=saver, copy_from_scaffold=scaffold))
    with tf.control_dependencies([spec.train_op]):
        kept = average.apply(variables)
    # Every process makes the variables; who does not update them leaves the op out.
    return spec._replace(train_op=tf.group(spec.train_op, kept)) if updates else spec


def name_average(variable: str) -> str:
    """Returns what the average of a variable is called in checkpoints."""
    return f"{variable}/ExponentialMovingAverage"


def _map_restored(variables: list[Any]) -> dict[str, Any]:
    """Returns which variable is read under which name: parameters under that of their average.
    Parts of one that is cut are read under its name."""
    found: dict[str, Any] = {}
    for variable in variables:
        part = getattr(variable, "_save_slice_info", None)
        if part is None:
            found[name_average(variable.op.name)] = variable
        else:
            found.setdefault(name_average(part.full_name), []).append(variable)
    taken = {id(v) for v in variables}
    others = {v.op.name: v for v in _v1.global_variables() if id(v) not in taken}
    return {**found, **others}
