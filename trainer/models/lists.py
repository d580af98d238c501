"""Lists in batches: padded as they are fed and read, ragged as steps are applied to them."""

from __future__ import annotations

import tensorflow as tf

# Stands in bags of ids where there is none.
NO_ID = -1


def is_item(padded: tf.Tensor, stand_in: float | int | str | None) -> tf.Tensor:
    """Returns `[batch, any]` bool, which places do not hold `stand_in`."""
    missing = tf.math.is_nan(padded) if stand_in != stand_in else tf.equal(padded, stand_in)
    return ~missing


def ragged(padded: tf.Tensor, stand_in: float | int | str | None) -> tf.RaggedTensor:
    """Returns the items of lists, `[batch, any]`, without the places that hold `stand_in`."""
    return tf.ragged.boolean_mask(padded, is_item(padded, stand_in))
