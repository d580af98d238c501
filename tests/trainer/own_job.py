"""A job whose input and model are functions here: it learns y = 3 x by one variable under any
strategy, or by as many as `OWN_WIDTH` says, as after a change in the code."""

from __future__ import annotations

import os
import pathlib

import tensorflow as tf
import yaml

from trainer import optimizers

STEPS = 60
WIDTH = int(os.environ.get("OWN_WIDTH", "1"))
_v1 = tf.compat.v1


def config(strategy, **cluster):
    """Returns the config as YAML."""
    tree = {
        "name": "own",
        "data": {"input_fn": f"{__name__}:rows"},
        "model": {"name": f"{__name__}:model_fn"},
        "train": {
            "steps": STEPS,
            "batch_size": 8,
            "save_steps": 20,
            "optimizer": {"name": "sgd", "learning_rate": 0.3},
        },
        "eval": {"metric": "loss", "higher_is_better": False, "batch_size": 8},
        "cluster": {"strategy": strategy, **cluster},
    }
    return yaml.safe_dump(tree)


def write(folder: pathlib.Path, strategy, **cluster):
    path = folder / "own.yaml"
    path.write_text(config(strategy, **cluster))
    return path


def rows(mode, params, input_context):
    numbers = tf.data.Dataset.range(256)
    if mode == "train":
        pipelines, number = input_context.num_input_pipelines, input_context.input_pipeline_id
        numbers = numbers.shard(pipelines, number).shuffle(256).repeat()
    x = numbers.map(lambda n: tf.cast(n, tf.float32) / 256)
    return x.map(lambda x: ({"x": x}, 3 * x)).batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    weights = _v1.get_variable("w", [WIDTH], initializer=_v1.zeros_initializer())
    answer = tf.reduce_sum(weights) * features["x"]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"answer": answer})
    loss = tf.reduce_mean(tf.square(answer - labels))
    update = optimizers.train_op(loss, params["optimizer"]) if mode == "train" else None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)
