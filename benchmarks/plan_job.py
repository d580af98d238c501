"""A job whose demands are set: a model that sleeps, and an input that does."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.variables import PartitionedVariable

from trainer import optimizers

_VARIABLES = 8
_v1 = tf.compat.v1


def rows(mode: str, params: dict[str, Any]) -> Any:
    """Returns batches of zeros, each after `params["input_seconds"]`."""
    wait = params["input_seconds"] if mode == "train" else 0.0
    dataset = tf.data.Dataset.from_tensors(({"x": np.zeros(4, np.float32)}, np.zeros(4, np.int64)))
    if mode != "train":
        return dataset
    dataset = dataset.repeat()
    if wait:
        dataset = dataset.map(lambda x, y: ({"x": _delay(wait, x["x"])}, y))
    return dataset.prefetch(1)


def _delay(seconds: float, value: Any) -> Any:
    """Returns the value, `seconds` later; no processor is used meanwhile."""

    def wait(given: Any) -> Any:
        time.sleep(seconds)
        return given

    waited = tf.numpy_function(wait, [value], value.dtype, stateful=True)
    return tf.ensure_shape(waited, value.shape)


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """Pulls `floats` parameters, sleeps `seconds`, and pushes as many. Other `server_floats` are
    updated without leaving their servers."""
    factor = tf.reduce_mean(features["x"]) + 1.0
    parts = [_pull(n, params["floats"] // _VARIABLES, factor) for n in range(_VARIABLES)]
    if params["server_floats"]:
        parts += [_keep(n, params["server_floats"] // _VARIABLES) for n in range(_VARIABLES)]
    loss = tf.add_n(parts)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return tf.estimator.EstimatorSpec(mode, predictions={"x": features["x"]}, loss=loss)
    loss = _delay_gradients(loss, params["seconds"])
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=optimizers.train_op(loss, params["optimizer"])
    )


def _pull(number: int, size: int, factor: Any) -> Any:
    weights = _v1.get_variable(f"pulled{number}", [size], initializer=_v1.zeros_initializer())
    return factor * tf.reduce_sum(weights)


def _keep(number: int, size: int) -> Any:
    weights = _v1.get_variable(f"kept{number}", [size], initializer=_v1.zeros_initializer())
    # Several servers have a part each.
    parts = list(weights) if isinstance(weights, PartitionedVariable) else [weights]
    return tf.add_n([_keep_part(part) for part in parts])


def _keep_part(weights: Any) -> Any:
    @tf.custom_gradient
    def on_server(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            with tf.device(weights.device):
                return tf.fill(weights.shape, upstream)

        with tf.device(weights.device):
            return tf.reduce_sum(value), gradient

    with tf.device(weights.device):  # or what it is given would go to the worker and back
        return on_server(weights.read_value())


def _delay_gradients(loss: Any, seconds: float) -> Any:
    """Returns the loss, whose gradients come `seconds` later."""

    @tf.custom_gradient
    def wait(value: Any) -> Any:
        return tf.identity(value), lambda upstream: _delay(seconds, upstream)

    return wait(loss)
