"""Writes TFRecord files of Examples as users of TensorFlow do."""

from __future__ import annotations

import pathlib
from typing import Any

import tensorflow as tf


def example(**values: Any) -> bytes:
    """Returns an Example with a feature for each value: int, float, bytes, or a list of these."""
    feature = {}
    for name, value in values.items():
        items = value if isinstance(value, list) else [value]
        if items and isinstance(items[0], bytes):
            made = tf.train.Feature(bytes_list=tf.train.BytesList(value=items))
        elif items and isinstance(items[0], float):
            made = tf.train.Feature(float_list=tf.train.FloatList(value=items))
        else:
            made = tf.train.Feature(int64_list=tf.train.Int64List(value=items))
        feature[name] = made
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def row(number: int) -> bytes:
    """Returns a good row of `tables.COLUMNS`; every fifth one has no size."""
    size = {} if number % 5 == 0 else {"size": float(number % 100)}
    return example(id=number, name=b"n%d" % number, label=number % 2, **size)


def write(path: pathlib.Path, payloads: list[bytes], compression: str = "") -> None:
    """Writes a file with TensorFlow's own writer."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for payload in payloads:
            writer.write(payload)
