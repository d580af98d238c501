"""Gradients of some rows of a table, of which several lookups may have asked for the same."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def sum_by_row(gradient: Any) -> Any:
    """Returns a gradient that has each row once, added up; one that is not by row as it is."""
    if not isinstance(gradient, tf.IndexedSlices) or are_distinct(gradient.indices):
        return gradient
    ids, places = tf.unique(gradient.indices)
    sums = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
    return tf.IndexedSlices(sums, ids, gradient.dense_shape)


def are_distinct(indices: Any) -> bool:
    """Tells if a tensor is the distinct values that `tf.unique` returns, as they are."""
    while indices.op.type in ("Reshape", "Identity"):
        indices = indices.op.inputs[0]
    return indices.op.type in ("Unique", "UniqueV2") and indices.value_index == 0
