"""Whole numbers next to numbers of a config, which may be fractions.

Of whole numbers beyond 2**24 float32 lacks most, so that int64 values are compared as they are, and
what is subtracted from them is subtracted before they become float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# float32 has all whole numbers up to this, and then only some.
OF_FLOAT32 = 2**24
LEAST, MOST = -(2**63), 2**63 - 1


def round_down(limit: float) -> int:
    """Returns the largest int64 that is not above a finite number: what is greater than the one is
    greater than the other."""
    return min(max(math.floor(limit), LEAST), MOST)


def round_up(limits: Sequence[float]) -> list[int]:
    """Returns the smallest int64 that is not below each of some numbers; none for those that are
    above all."""
    return [math.ceil(max(limit, LEAST)) for limit in limits if limit <= MOST]


def subtract(x: tf.Tensor, offset: float | Sequence[float]) -> tf.Tensor:
    """Returns x - offset as float32, of int64 subtracted as float64."""
    import tensorflow as tf

    if x.dtype == tf.int64:
        return tf.cast(tf.cast(x, tf.float64) - offset, tf.float32)
    return tf.cast(x, tf.float32) - offset


def modulo(x: tf.Tensor, period: float) -> tf.Tensor:
    """Returns x mod period of int64, without rounding if the period is whole."""
    import tensorflow as tf

    if period.is_integer() and period <= MOST:
        return tf.math.floormod(x, int(period))
    return tf.math.floormod(tf.cast(x, tf.float64), period)
