"""From logits to an `EstimatorSpec`: loss, metrics and predictions are `tf.estimator`'s own."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer import optimizers


def estimator_spec(
    logits: Any, features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> Any:
    """Returns the spec of a classifier over `params["classes"]` classes.

    `logits` is `[batch, classes]`, `labels` `[batch]` int64. The serving signature returns
    `class`, `[batch]` int64, and `probabilities`, `[batch, classes]` float32.
    """
    classes = params["classes"]
    head = tf.estimator.BinaryClassHead() if classes == 2 else tf.estimator.MultiClassHead(classes)
    spec = head.create_estimator_spec(
        features=features,
        mode=mode,
        # Of two classes tf.estimator wants one logit; softmax of two is the sigmoid of this.
        logits=logits[:, 1:] - logits[:, :1] if classes == 2 else logits,
        labels=labels,
        train_op_fn=lambda loss: optimizers.train_op(loss, params["optimizer"]),
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return spec._replace(export_outputs=_export_outputs(spec.predictions))
    if mode == tf.estimator.ModeKeys.TRAIN:
        hits = tf.equal(tf.argmax(logits, axis=1), tf.cast(labels, tf.int64))
        tf.compat.v1.summary.scalar("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    return spec


def _export_outputs(predictions: Any) -> dict[str, Any]:
    answer = {
        "class": tf.squeeze(predictions["class_ids"], axis=1),
        "probabilities": predictions["probabilities"],
    }
    return {"serving_default": tf.estimator.export.PredictOutput(answer)}
