"""A job whose steps, batches and saves take as long as it is told: for where time goes.

`PIPELINE_TIMED` in the environment is {"notes": folder, "step": seconds, "slow": {task: more of
them}, "batch": seconds, "late": {task: more of them}, "eval": seconds of a batch, "save": seconds}.
A step takes half of its seconds in the graph, and half in a hook. Everything sleeps, so that no
machine is too slow for it.

Each process that trains notes the ends of its steps and when its batches were ready, and the chief
its saves, in a file `<task>-<process>` of the folder: a clock of its own, to compare others with.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
import tensorflow as tf

from trainer import optimizers

VARIABLE = "PIPELINE_TIMED"
ROWS = 64
_saves = tf.compat.v1.train.Saver.save


def plan():
    return {
        "step": 0.0,
        "slow": {},
        "batch": 0.0,
        "late": {},
        "eval": 0.0,
        "save": 0.0,
        **json.loads(os.environ[VARIABLE]),
    }


def own_name() -> str:
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    return f"{task.get('type', 'chief')}-{task.get('index', 0)}"


def _note(what: str, value: float) -> None:
    """Notes what has just ended: `step` or `batch` and its number, `save` and its seconds."""
    with open(f"{plan()['notes']}/{own_name()}-{os.getpid()}", "a") as file:
        file.write(f"{time.time():.4f} {what} {value:.4f}\n")


def _half_a_step() -> float:
    planted = plan()
    return (planted["step"] + planted["slow"].get(own_name(), 0.0)) / 2


def _late(values, seconds: float):
    """Returns the tensor `values`, so much later."""
    if not seconds:
        return values
    late = tf.numpy_function(lambda x: (time.sleep(seconds), x)[1], [values], values.dtype)
    late.set_shape(values.shape)
    return late


def _late_batch(values, number, seconds: float):
    """Returns the tensor `values` so much later, and notes that the batch of this number is ready.
    Each session begins with number 0."""

    def wait(x, number):
        time.sleep(seconds)
        _note("batch", number)
        return x

    late = tf.numpy_function(wait, [values, number], values.dtype)
    late.set_shape(values.shape)
    return late


def rows(mode, params):
    x = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x[:, :1] > 0).astype(np.float32)))
    planted = plan()
    if mode != "train":
        return data.batch(ROWS).map(
            lambda features, labels: ({"x": _late(features["x"], planted["eval"])}, labels)
        )
    data = data.repeat().batch(params["batch_size"])
    seconds = planted["batch"] + planted["late"].get(own_name(), 0.0)
    if not seconds:
        return data
    return data.enumerate().map(
        lambda number, row: ({"x": _late_batch(row[0]["x"], number, seconds)}, row[1])
    )


def model_fn(features, labels, mode, params):
    train = mode == tf.estimator.ModeKeys.TRAIN
    x = _late(features["x"], _half_a_step()) if train else features["x"]
    logits = tf.compat.v1.layers.dense(x, 1)
    answer = {"p": tf.sigmoid(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(answer)}
        return tf.estimator.EstimatorSpec(mode, predictions=answer, export_outputs=outputs)
    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)
    op = optimizers.train_op(loss, params["optimizer"]) if train else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=op)


class Pace(tf.compat.v1.train.SessionRunHook):
    """Makes each step take the rest of its time, and each save of the chief."""

    def begin(self):
        self._global_step = tf.compat.v1.train.get_or_create_global_step()
        self._rest = _half_a_step()
        if own_name() == "chief-0":
            tf.compat.v1.train.Saver.save = _save

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context, run_values):
        time.sleep(self._rest)
        _note("step", run_values.results)


def _save(saver, session, path, **kwargs):
    if "model.ckpt" not in path:  # but in an export
        return _saves(saver, session, path, **kwargs)
    began = time.time()
    time.sleep(plan()["save"])
    saved = _saves(saver, session, path, **kwargs)
    _note("save", time.time() - began)
    return saved
