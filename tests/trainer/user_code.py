"""Models and hooks as a user of the project writes them, named by dotted path in configs."""

from __future__ import annotations

import os
import signal

import tensorflow as tf

from pipeline.processes import signals
from trainer import optimizers

KILL_AT = 37
# Of a process that `StopServerHook` stops.
SERVER = "SERVER_TO_STOP"


def model_fn(features, labels, mode):
    """A linear model that takes no params and makes its own train op."""
    x = tf.compat.v1.layers.flatten(tf.cast(features["image"], tf.float32) / 255.0)
    logits = tf.compat.v1.layers.dense(x, 10, name="linear")
    if mode == tf.estimator.ModeKeys.PREDICT:
        answer = {"class": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
        return tf.estimator.EstimatorSpec(
            mode,
            predictions=answer,
            export_outputs={"serving_default": tf.estimator.export.PredictOutput(answer)},
        )
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"hit_rate": accuracy})
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.5).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def classifier(config):
    """One of TensorFlow's own Estimators, as it is."""
    size = tf.feature_column.numeric_column("size", (2,))
    return tf.compat.v1.estimator.DNNClassifier([4], [size], config=config)


def regressor(config):
    """Another one."""
    size = tf.feature_column.numeric_column("size", (2,))
    return tf.estimator.LinearRegressor([size], config=config)


def embedding_model_fn(features, labels, mode):
    """Serves its hidden layer under a signature of its own."""
    hidden = tf.compat.v1.layers.dense(features["size"], 4)
    p = tf.sigmoid(tf.compat.v1.layers.dense(hidden, 1)[:, 0])
    if mode == tf.estimator.ModeKeys.PREDICT:
        output = tf.estimator.export.PredictOutput
        signatures = {"serving_default": output({"p": p}), "hidden": output({"hidden": hidden})}
        return tf.estimator.EstimatorSpec(mode, predictions={"p": p}, export_outputs=signatures)
    loss = tf.reduce_mean(tf.square(p - tf.cast(labels, tf.float32)))
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.5).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def own_head_model_fn(features, labels, mode, config):
    """As libraries of models for clicks have it: logits of its own, and a head of tf.estimator."""
    logits = tf.compat.v1.layers.dense(features["size"], 1)
    return tf.estimator.BinaryClassHead().create_estimator_spec(
        features=features,
        mode=mode,
        logits=logits,
        labels=labels,
        train_op_fn=lambda loss: tf.compat.v1.train.GradientDescentOptimizer(0.5).minimize(
            loss, tf.compat.v1.train.get_or_create_global_step()
        ),
    )


def small_network():
    """A Keras network of one feature."""
    size = tf.keras.Input([2], name="size")
    return tf.keras.Model(size, tf.keras.layers.Dense(1, "sigmoid")(size))


def squared_model_fn(features, labels, mode, params):
    """Its loss has no bounds, so that large steps make it larger."""
    spec = model_fn(features, labels, mode)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    (weights,) = [v for v in tf.compat.v1.trainable_variables() if v.shape.rank == 2]
    x = tf.compat.v1.layers.flatten(tf.cast(features["image"], tf.float32) / 255.0)
    loss = tf.reduce_mean(tf.square(tf.linalg.matmul(x, weights) - 1.0), name="squares")
    return spec._replace(loss=loss, train_op=optimizers.train_op(loss, params["optimizer"]))


def nan_model_fn(features, labels, mode):
    """Its loss is not a number from step 5 on."""
    spec = model_fn(features, labels, mode)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    step = tf.cast(tf.compat.v1.train.get_or_create_global_step(), tf.float32)
    nan = tf.where(step < 5.0, 0.0, float("nan"))
    return spec._replace(loss=spec.loss + nan)


class TerminateHook(tf.compat.v1.train.SessionRunHook):
    """Sends SIGTERM to its own process at step `KILL_AT`, once."""

    def begin(self):
        self._sent = False
        self._step = tf.compat.v1.train.get_or_create_global_step()

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        if run_values.results >= KILL_AT and not self._sent:
            self._sent = True
            os.kill(os.getpid(), signal.SIGTERM)
            # Another thread may have got it, and this one may make steps until its turn comes.
            assert signals.stop_requested.wait(60)


class StopServerHook(tf.compat.v1.train.SessionRunHook):
    """Stops the process whose number is in the variable `SERVER` before a checkpoint is written,
    except that of step 0."""

    def begin(self):
        save = tf.compat.v1.train.Saver.save

        def stop_and_save(*given, global_step, **others):
            if global_step:
                os.kill(int(os.environ[SERVER]), signal.SIGSTOP)
            return save(*given, global_step=global_step, **others)

        tf.compat.v1.train.Saver.save = stop_and_save


not_a_model = 3
