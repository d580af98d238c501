"""Gradients of some rows of a table, of which several lookups may have asked for the same."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.training import sync_replicas_optimizer

# The index of a row that is none of the table.
_COUNTS = -1


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
    """Adds up gradients of some rows each, and gives their sum over the number of gradients.

    These may be more than were waited for, so each brings a row of ones, to be counted by.
    """

    def __init__(self, dtype: Any, **kwargs: Any) -> None:
        super().__init__(dtype, reduction_type="SUM", **kwargs)

    def apply_indexed_slices_grad(self, grad: Any, local_step: Any = 0, name: Any = None) -> Any:
        """Returns the op that adds a gradient, unless it is of a step before."""
        one = tf.ones(tf.concat([[1], tf.shape(grad.values)[1:]], 0), grad.values.dtype)
        values = tf.concat([one, grad.values], 0)
        indices = tf.concat([[tf.cast(_COUNTS, grad.indices.dtype)], grad.indices], 0)
        counted = tf.IndexedSlices(values, indices, grad.dense_shape)
        return super().apply_indexed_slices_grad(counted, local_step, name)

    def take_indexed_slices_grad(self, num_required: int, name: str | None = None) -> Any:
        """Returns the average of so many gradients or more. A row that some do not have counts as
        0 there; one may be there several times, to be added up."""
        taken = super().take_indexed_slices_grad(num_required, name)
        counts = tf.reshape(tf.equal(taken.indices, _COUNTS), [-1])
        number = tf.reduce_mean(tf.reduce_sum(tf.boolean_mask(taken.values, counts), 0))
        rows = tf.boolean_mask(taken.values, ~counts) / number
        return tf.IndexedSlices(rows, tf.boolean_mask(taken.indices, ~counts), taken.dense_shape)


@contextlib.contextmanager
def average_over_all(local_step: Callable[[], Any]) -> Iterator[None]:
    """Lets a `SyncReplicasOptimizer` that is built in the body average rows as it does all else
    (docs/tensorflow-pitfalls.md#syncreplicasoptimizer). It takes no accumulator from outside.

    Gradients are handed in as of `local_step`, which is called once it may be made.
    """

    class Dense(tf.compat.v1.ConditionalAccumulator):
        def apply_grad(self, grad: Any, *_: Any, **__: Any) -> Any:
            return super().apply_grad(grad, local_step())

    class Sparse(_AveragingAccumulator):
        def apply_indexed_slices_grad(self, grad: Any, *_: Any, **__: Any) -> Any:
            return super().apply_indexed_slices_grad(grad, local_step())

    usual = sync_replicas_optimizer.data_flow_ops
    changed = {"ConditionalAccumulator": Dense, "SparseConditionalAccumulator": Sparse}
    sync_replicas_optimizer.data_flow_ops = types.SimpleNamespace(**{**vars(usual), **changed})
    try:
        yield
    finally:
        sync_replicas_optimizer.data_flow_ops = usual
