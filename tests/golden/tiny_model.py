"""The model of the golden checkpoints: as small as can be, and written for plain `tf.estimator`."""

from __future__ import annotations

import tensorflow as tf


def model_fn(features, labels, mode):
    """Softmax regression on images, `[batch, 28, 28, 1]` uint8, of which 7 x 7 means are left."""
    means = tf.nn.avg_pool2d(tf.cast(features["image"], tf.float32) / 255.0, 4, 4, "VALID")
    x = tf.compat.v1.layers.flatten(means)
    logits = tf.compat.v1.layers.dense(x, 10, name="linear")
    if mode == tf.estimator.ModeKeys.PREDICT:
        answer = {"class": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
        output = tf.estimator.export.PredictOutput(answer)
        return tf.estimator.EstimatorSpec(
            mode, predictions=answer, export_outputs={"serving_default": output}
        )
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
