"""Gradients of some rows of a table, added up over processes that hold a copy of it each.

TensorFlow's own way aborts in graph mode: a collective has one shape in all steps, and batches ask
for other numbers of rows (docs/tensorflow-pitfalls.md#sparse-gradients-in-an-all-reduce). Here rows
are padded to a power of two, and each of these has a collective of its own.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_utils
from tensorflow.python.ops import collective_ops

_LEAST, _SIZES = 6, 25  # rows are padded to one of 2**6 to 2**30


def install() -> None:
    """Has strategies of this process gather gradients of rows like this."""
    cross_device_utils.CollectiveReplicaLauncher.all_reduce_indexed_slices = _gather_rows


def _gather_rows(launcher: Any, rows: tf.IndexedSlices, options: Any = None) -> tf.IndexedSlices:
    """Returns the rows of all processes, one after the other. `launcher` has the group of them."""
    with tf.device(launcher._device):
        # In each process the same, made in the same order.
        keys = tf.constant([launcher._next_instance_key() for _ in range(2 * _SIZES)])
        count = tf.shape(rows.indices)[0]
        counts = launcher._all_gather(count[tf.newaxis], options)
        power = _find_power_of_two(tf.reduce_max(counts))
        length = tf.bitwise.left_shift(1, power)

        def gather(x: tf.Tensor, first: int) -> tf.Tensor:
            rest = [[0, 0]] * (x.shape.rank - 1)
            padded = tf.pad(x, [[0, length - count], *rest])
            return collective_ops.all_gather_v2(
                padded,
                launcher._group_size,
                launcher._group_key,
                keys[first + power - _LEAST],
                communication_hint=launcher._options.merge(options).implementation.value,
            )

        is_row = tf.reshape(tf.range(length) < counts[:, tf.newaxis], [-1])
        values, indices = (
            tf.boolean_mask(gather(x, first), is_row)
            for x, first in ((rows.values, 0), (rows.indices, _SIZES))
        )
        values = tf.ensure_shape(values, [None, *rows.values.shape[1:]])
    return tf.IndexedSlices(values, indices, rows.dense_shape)


def _find_power_of_two(count: tf.Tensor) -> tf.Tensor:
    """Returns the exponent of the least power of two that is no smaller than `count`."""
    powers = tf.constant([1 << power for power in range(_LEAST, _LEAST + _SIZES)], tf.int64)
    place = tf.searchsorted(powers, tf.cast(count, tf.int64)[tf.newaxis], side="left")[0]
    return _LEAST + place
