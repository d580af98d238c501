"""A regressor of one's own with an offset and a scale of its own, which nothing else knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer import optimizers
from trainer.features.transforms import WEIGHT
from trainer.heads import heads

v1 = tf.compat.v1


def model_fn(features: Mapping[str, Any], labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """A network over all features that are numbers."""
    given = [x for name, x in features.items() if name != WEIGHT and x.dtype == tf.float32]
    x = tf.concat([x if x.shape.rank == 2 else x[:, None] for x in given], axis=1)
    training = mode == tf.estimator.ModeKeys.TRAIN
    for units in params.get("hidden_units", ()):
        x = v1.layers.dense(x, units, activation=tf.nn.relu)
        if params.get("batch_norm", False):
            x = v1.layers.batch_normalization(x, training=training)
    net = v1.layers.dense(x, 1)[:, 0]
    guess = params["offset"] + params["scale"] * net
    if mode == tf.estimator.ModeKeys.PREDICT:
        answer = {"prediction": guess}
        return tf.estimator.EstimatorSpec(
            mode, predictions=answer, export_outputs=heads.export_outputs(answer)
        )
    error = (tf.cast(labels, tf.float32) - guess) / params["scale"]
    loss = tf.reduce_mean(tf.square(error))
    train_op = optimizers.train_op(loss, params["optimizer"]) if training else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
