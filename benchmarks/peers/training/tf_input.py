"""The records as programs of TensorFlow usually read them: `TFRecordDataset`, a shuffle buffer,
and batches that are parsed beside the steps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_SHUFFLED = 10_000  # records


def read_train(given: dict[str, Any]) -> tf.data.Dataset:
    """Returns shuffled batches without end: features and labels."""
    rows = tf.data.TFRecordDataset(given["records"]["train"])
    rows = rows.shuffle(_SHUFFLED, seed=given["seed"]).repeat()
    batches = rows.batch(given["batch_size"], drop_remainder=True)
    return batches.map(build_parser(given), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def read_test(given: dict[str, Any]) -> tf.data.Dataset:
    """Returns the test split once, in order."""
    rows = tf.data.TFRecordDataset(given["records"]["test"])
    return rows.batch(given["batch_size"]).map(build_parser(given)).prefetch(2)


def build_parser(given: dict[str, Any], *, key: str | None = None):
    """Returns a function from serialized examples, `[batch]`, to features and labels: `numbers`
    `[batch, 2 * numbers]`, ids by name, `[batch]`, and of lists, ragged `[batch, items]`. The
    column `key`, if given, is a feature as it is."""
    spec: dict[str, Any] = {given["label"]: tf.io.FixedLenFeature([], tf.int64)}
    spec |= {of["name"]: tf.io.FixedLenFeature([], tf.int64, -1) for of in given["numbers"]}
    spec |= {of["name"]: tf.io.FixedLenFeature([], tf.string, "") for of in given["ids"]}
    spec |= {of["name"]: tf.io.RaggedFeature(tf.string) for of in given["lists"]}
    spec |= {key: tf.io.FixedLenFeature([], tf.int64)} if key else {}
    tables = {of["name"]: _build_table(of["values"]) for of in (*given["ids"], *given["lists"])}
    means, deviations = (
        tf.constant([of[what] for of in given["numbers"]]) for what in ("mean", "deviation")
    )

    def parse(serialized):
        read = tf.io.parse_example(serialized, spec)
        raw = tf.stack([read[of["name"]] for of in given["numbers"]], axis=1)
        missing = tf.cast(raw < 0, tf.float32)
        numbers = tf.math.log1p(tf.cast(tf.maximum(raw, 0), tf.float32))
        features = {"numbers": tf.concat([(numbers - means) / deviations, missing], axis=1)}
        for name, table in tables.items():
            values = read[name]
            if isinstance(values, tf.RaggedTensor):
                features[name] = values.with_values(table.lookup(values.values))
            else:
                features[name] = table.lookup(values)
        features |= {key: read[key]} if key else {}
        return features, tf.cast(read[given["label"]], tf.float32)

    return parse


def _build_table(values):
    ids = tf.range(len(values), dtype=tf.int64)
    numbered = tf.lookup.KeyValueTensorInitializer(tf.constant(values), ids)
    return tf.lookup.StaticHashTable(numbered, len(values))
