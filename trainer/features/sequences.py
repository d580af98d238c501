"""Vectors of the items of lists, in order, and what one vector is made of them.

Ids come as features of lists do: `[batch, items]` int64, with `lists.NO_ID` where there is none.
What is done with vectors works on tensors of Keras models, too.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import tensorflow as tf

from trainer.features import lists, positions
from trainer.features.positions import Positions

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Sequence:
    """The `vectors` of the items of each row, `[batch, items, size]`; which of these places hold an
    item is in `there`, `[batch, items]` bool. The others have zeros."""

    vectors: Any
    there: Any


def look_up(ids: tf.Tensor, shape: tuple[int, int], table: str) -> Sequence:
    """Returns the rows of a table `[ids, size]`, which is made as those of other features are if
    the graph does not have it yet. `table` is the scope of its variable."""
    there = tf.not_equal(ids, lists.NO_ID)
    places = tf.where(there)
    different, which = tf.unique(tf.gather_nd(ids, places))
    with v1.variable_scope(table, reuse=v1.AUTO_REUSE):
        deviation = 1 / math.sqrt(shape[1])
        rows = v1.get_variable(
            "embedding_weights",
            shape,
            initializer=v1.truncated_normal_initializer(stddev=deviation),
        )
    # Only rows of items are asked for, so that no other row gets a gradient.
    found = tf.gather(v1.nn.embedding_lookup(rows, different, partition_strategy="div"), which)
    size = tf.concat([tf.shape(ids, tf.int64), [shape[1]]], axis=0)
    vectors = tf.ensure_shape(tf.scatter_nd(places, found, size), [None, None, shape[1]])
    return Sequence(vectors, there)


def add_positions(sequence: Sequence, items: int, scope: str) -> Sequence:
    """Returns the sequence with a learned vector of its place added to each vector, in lists of at
    most so many `items`. `scope` is that of the variable."""
    with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
        size = int(sequence.vectors.shape[-1])
        places = positions.look_up(sequence.there, Positions(items), size)
    return Sequence(sequence.vectors + places, sequence.there)


def sum_weighted(sequence: Sequence, weights: Any) -> Any:
    """Returns the sum of the vectors, each times its weight `[batch, items]`: `[batch, size]`."""
    return tf.reduce_sum(sequence.vectors * weights[:, :, tf.newaxis], axis=1)


def mean(sequence: Sequence) -> Any:
    """Returns the mean of the vectors, `[batch, size]`."""
    there = tf.cast(sequence.there, tf.float32)
    count = tf.reduce_sum(there, axis=1, keepdims=True)
    return tf.math.divide_no_nan(sum_weighted(sequence, there), count)


def take_last(sequence: Sequence) -> Any:
    """Returns the vector of the last item, `[batch, size]`."""
    there = tf.cast(sequence.there, tf.int32)
    behind = tf.cumsum(there, axis=1, reverse=True, exclusive=True)
    return sum_weighted(sequence, tf.cast(there * tf.cast(behind < 1, tf.int32), tf.float32))


def compare(sequence: Sequence, candidate: Any) -> Any:
    """Returns each vector next to that of the candidate `[batch, size]`, their difference and their
    product: `[batch, items, 4 * size]`."""
    items = sequence.vectors
    same = tf.zeros_like(items) + candidate[:, tf.newaxis, :]
    return tf.concat([same, items, same - items, same * items], axis=2)


def gru(sequence: Sequence) -> tf.Tensor:
    """Returns the last state of a gated recurrent unit, `[batch, size]`: Cho et al., Learning
    phrase representations using RNN encoder-decoder, 2014.

    Its parameters are named and laid out as those of `tf.keras.layers.GRU(reset_after=False)`.
    """
    x = sequence.vectors
    size = x.shape[-1]
    kernel = v1.get_variable("kernel", [size, 3 * size])
    inner = tf.convert_to_tensor(
        v1.get_variable(
            "recurrent_kernel", [size, 3 * size], initializer=v1.orthogonal_initializer()
        )
    )
    bias = v1.get_variable("bias", [3 * size], initializer=v1.zeros_initializer())
    given = tf.tensordot(x, tf.convert_to_tensor(kernel), 1) + tf.convert_to_tensor(bias)

    def step(state: tf.Tensor, now: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        inputs, there = now
        gates = tf.sigmoid(inputs[:, : 2 * size] + state @ inner[:, : 2 * size])
        update, reset = gates[:, :size], gates[:, size:]
        new = tf.tanh(inputs[:, 2 * size :] + (reset * state) @ inner[:, 2 * size :])
        return tf.where(there[:, tf.newaxis], update * state + (1 - update) * new, state)

    by_item = (tf.transpose(given, [1, 0, 2]), tf.transpose(sequence.there))
    return tf.foldl(step, by_item, tf.zeros_like(tf.reduce_sum(x, axis=1)))
