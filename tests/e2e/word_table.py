"""Jobs with a table of 3,000 words, which are drawn by Zipf's law: records, and models of each
kind."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.config import config_file
from tests import record_sets
from trainer import optimizers

WORDS, WIDTH = 3000, 16
CONFIG = f"""
name: words
data:
  source: csv
  inputs: {{train: {{files: none.csv}}}}
  columns:
    word: {{type: int64, min: 0, max: {WORDS - 1}}}
    label: {{type: int64, min: 0, max: 1}}
  label: label
features:
  word: {{steps: [{{identity: {{ids: {WORDS}}}}}], embedding: {WIDTH}}}
model: {{name: dnn, params: {{hidden_units: [4]}}}}
train: {{steps: 10, batch_size: 64}}
eval: {{metric: accuracy, batch_size: 100}}
cluster: {{strategy: parameter_server, workers: 0, partition_bytes: 10000}}
"""
# What makes each kind of model, and the name of its table.
MODELS = {
    "canned": (
        "model={name: dnn_linear_combined, params: {hidden_units: [4]}}",
        "dnn/input_from_feature_columns/input_layer/word_embedding/embedding_weights",
    ),
    "keras": (
        f"model={{name: keras, params: {{network: '{__name__}:network'}}}}",
        "embedding/embeddings",
    ),
    "own": (f"model={{name: '{__name__}:model_fn', params: {{}}}}", "table"),
}
_v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Words:
    """Their records, in `folder`, and the config in `path`."""

    folder: str
    path: str

    def config(self, *overrides: str) -> config.Config:
        return config_file.load(self.path, list(overrides))


def write(folder: pathlib.Path) -> Words:
    path = folder / "words.yaml"
    path.write_text(CONFIG)
    job = config_file.load(str(path), [])
    splits = {"train": [_payloads(2000, seed=1)], "eval": [_payloads(100, seed=2)]}
    records = folder / "records"
    record_sets.write(
        records, splits, block_records=50, columns=job.data.columns, label=job.data.label
    )
    return Words(str(records), str(path))


def _payloads(count, seed):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, WORDS + 1) ** 1.1
    words = rng.choice(WORDS, count, p=chances / chances.sum())
    made = []
    for word in words:
        values = {"word": int(word), "label": int(word % 2)}
        features = {
            name: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
            for name, value in values.items()
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        made.append(example.SerializeToString())
    return made


def network():
    word = tf.keras.Input([], name="word", dtype=tf.int64)
    vector = tf.keras.layers.Embedding(WORDS, WIDTH)(word)
    return tf.keras.Model(word, tf.keras.layers.Dense(1, activation="sigmoid")(vector))


def model_fn(features, labels, mode, params):
    table = _v1.get_variable("table", [WORDS, WIDTH])
    logits = _v1.layers.dense(tf.nn.embedding_lookup(table, features["word"]), 1)[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    labels = tf.cast(labels, tf.float32)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        right = tf.equal(logits > 0, labels > 0)
        metrics = {"accuracy": _v1.metrics.mean(tf.cast(right, tf.float32))}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    update = optimizers.train_op(loss, params["optimizer"])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)
