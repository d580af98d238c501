"""A job whose steps, batches and saves take as long as it is told: for where time goes.

`PIPELINE_TIMED` in the environment is {"step": seconds, "slow": {task: more of them}, "batch":
seconds, "eval": seconds of a batch, "save": seconds}. Everything sleeps, so that no machine is too
slow for it.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
import tensorflow as tf

VARIABLE = "PIPELINE_TIMED"
ROWS = 64
_saves = tf.compat.v1.train.Saver.save


def plan():
    return {
        "step": 0.0,
        "slow": {},
        "batch": 0.0,
        "eval": 0.0,
        "save": 0.0,
        **json.loads(os.environ[VARIABLE]),
    }


def own_name() -> str:
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    return f"{task.get('type', 'chief')}-{task.get('index', 0)}"


def rows(mode, params):
    x = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x[:, :1] > 0).astype(np.float32)))
    seconds = plan()["batch" if mode == "train" else "eval"]

    def late(features, labels):
        waited = tf.numpy_function(lambda: (time.sleep(seconds), np.float32(0))[1], [], tf.float32)
        waited.set_shape([])
        return {"x": features["x"] + waited}, labels

    data = data.repeat().batch(params["batch_size"]) if mode == "train" else data.batch(ROWS)
    return data.map(late) if seconds else data


def model_fn(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features["x"], 1)
    answer = {"p": tf.sigmoid(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(answer)}
        return tf.estimator.EstimatorSpec(mode, predictions=answer, export_outputs=outputs)
    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    step = tf.compat.v1.train.get_or_create_global_step()
    op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=op)


class Pace(tf.compat.v1.train.SessionRunHook):
    """Makes each step take its time, and each save of the chief."""

    def begin(self):
        planted = plan()
        self._step = planted["step"] + planted["slow"].get(own_name(), 0.0)
        if planted["save"] and own_name() == "chief-0":

            def save(*args, **kwargs):
                time.sleep(planted["save"])
                return _saves(*args, **kwargs)

            tf.compat.v1.train.Saver.save = save

    def after_run(self, run_context, run_values):
        time.sleep(self._step)
