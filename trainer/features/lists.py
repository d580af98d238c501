"""Lists in batches: padded as they are fed and read, ragged as steps are applied to them."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# Stands in bags of ids where there is none.
NO_ID = -1


def is_item(padded: tf.Tensor, stand_in: float | int | str | None) -> tf.Tensor:
    """Returns `[batch, any]` bool, which places do not hold `stand_in`."""
    missing = tf.math.is_nan(padded) if stand_in != stand_in else tf.equal(padded, stand_in)
    return ~missing


def make_ragged(padded: tf.Tensor, stand_in: float | int | str | None) -> tf.RaggedTensor:
    """Returns the items of lists, `[batch, any]`, without the places that hold `stand_in`."""
    return tf.ragged.boolean_mask(padded, is_item(padded, stand_in))


def merge_ids(ids: Any) -> Any:
    """Returns one list a row of several ids of each value: of `[batch, several]`, ragged `[batch,
    items, several]`, or in a Keras model `[batch, items, several]`."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.merge_dims(1, 2)
    if tf.keras.backend.is_keras_tensor(ids):
        return ids if ids.shape.rank == 2 else tf.reshape(ids, [-1, math.prod(ids.shape[1:])])
    return tf.RaggedTensor.from_tensor(ids)


def repeat_items(padded: tf.Tensor, several: int) -> tf.Tensor:
    """Returns what holds for each item `[batch, items]` for each of its several ids."""
    return padded if several == 1 else tf.repeat(padded, several, axis=1)
