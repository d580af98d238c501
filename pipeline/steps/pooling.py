"""Steps that make one value of a list."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pipeline.steps.base import NUMBERS, Kind, Step

if TYPE_CHECKING:
    import tensorflow as tf


class Pool(Step):
    """Turns a list into one number; an empty list becomes 0."""

    takes = (*NUMBERS, "text", "ids")
    gives = "number"
    lists = "whole"
    takes_missing = True
    by: Literal["mean", "sum", "min", "max", "count"]
    """Which number: `mean`, `sum`, `min` and `max` are for numbers, `count` is that of all items.
    """

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for what only numbers have."""
        if kind not in NUMBERS and self.by != "count":
            raise ValueError(f"{self.by} is for numbers, and it gets {kind}; write by: count")

    def apply(self, x: tf.RaggedTensor) -> tf.Tensor:
        """mean, sum, min or max of the items, or how many there are; 0 if there are none."""
        import tensorflow as tf

        count = tf.cast(x.row_lengths(), tf.float32)
        return count if self.by == "count" else self._pool(tf.cast(x, tf.float32), count)

    def masked(self, x: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
        """Returns the same of items that are `there`."""
        import tensorflow as tf

        count = tf.reduce_sum(tf.cast(there, tf.float32), axis=1)
        if self.by == "count":
            return count
        neutral = {"min": math.inf, "max": -math.inf}.get(self.by, 0.0)
        return self._pool(tf.where(there, tf.cast(x, tf.float32), neutral), count)

    def _pool(self, x: Any, count: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        if self.by in ("mean", "sum"):
            total = tf.reduce_sum(x, axis=1)
            return total if self.by == "sum" else tf.math.divide_no_nan(total, count)
        found = (tf.reduce_min if self.by == "min" else tf.reduce_max)(x, axis=1)
        return tf.where(count > 0, found, 0.0)
