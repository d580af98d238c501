"""Vectors of ids, and of several ids one vector."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def column(ids: Any, width: int, combiner: str) -> Any:
    """Returns the column of a network that is a vector for each row of a categorical column.

    `combiner` is one of TensorFlow's, or `max`. A row without an id gets zeros.
    """
    if combiner != "max":
        return tf.feature_column.embedding_column(ids, width, combiner)
    # Only the lookup is another; its class has no public name.
    plain = tf.feature_column.embedding_column(ids, width)
    made = type("LargestEmbeddingColumn", (type(plain),), {_LOOKUP: _largest})
    return made(**plain._asdict())


# What the class of `embedding_column` calls to get rows of a table.
_LOOKUP = "_get_dense_tensor_internal_helper"


def _largest(self: Any, sparse_tensors: Any, embedding_weights: Any) -> tf.Tensor:
    ids = sparse_tensors.id_tensor
    return largest(embedding_weights, ids.values, ids.indices[:, 0], ids.dense_shape[0])


def largest(table: Any, ids: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns the largest of each component of the vectors of each row, `[count, width]`; zeros of
    a row without an id. `rows` says whose each of the `ids` is, both `[ids]`."""
    different, places = tf.unique(ids)
    found = tf.compat.v1.nn.embedding_lookup(table, different, partition_strategy="div")
    vectors = tf.gather(found, places)
    found = tf.math.unsorted_segment_max(vectors, rows, count)
    some = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, count) > 0
    return tf.where(some[:, tf.newaxis], found, 0.0)
