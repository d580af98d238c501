"""Gradients of some rows of a table, of which several lookups may have asked for the same."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.training import sync_replicas_optimizer


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


class _AveragingAccumulator(tf.compat.v1.SparseConditionalAccumulator):
    """Adds up gradients of some rows each, and gives their sum over the number of gradients."""

    def __init__(self, dtype: Any, **kwargs: Any) -> None:
        super().__init__(dtype, reduction_type="SUM", **kwargs)

    def take_indexed_slices_grad(self, num_required: int, name: str | None = None) -> Any:
        """Returns the average of so many gradients. A row that some do not have counts as 0 there;
        one may be there several times, to be added up."""
        taken = super().take_indexed_slices_grad(num_required, name)
        return tf.IndexedSlices(taken.values / num_required, taken.indices, taken.dense_shape)


@contextlib.contextmanager
def average_over_all() -> Iterator[None]:
    """Lets a `SyncReplicasOptimizer` that is built in the body average rows as it does all else
    (docs/tensorflow-pitfalls.md#syncreplicasoptimizer). It takes no accumulator from outside."""
    usual = sync_replicas_optimizer.data_flow_ops
    changed = {**vars(usual), "SparseConditionalAccumulator": _AveragingAccumulator}
    sync_replicas_optimizer.data_flow_ops = types.SimpleNamespace(**changed)
    try:
        yield
    finally:
        sync_replicas_optimizer.data_flow_ops = usual
