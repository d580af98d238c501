"""The area under the ROC of an evaluation, as exact as one that keeps every score.

`tf.keras.metrics.AUC` looks at 200 thresholds spread over all probabilities; where the scores of a
rare class lie close together, few of those tell them apart, and the area is wrong in the second
digit.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.heads import in_graph

# Of the logit, which spreads probabilities near 0 and 1: 0.0005 wide, over all that float32 tells
# apart, from 1e-45 to 1 - 6e-8.
_BUCKETS = 2**18
_LEAST, _MOST = -104.0, 18.0


class AreaUnderRoc(in_graph.Updated, tf.keras.metrics.Metric):
    """Takes probabilities of the positive class and labels of 0 and 1, with weights. Scores within
    one of the buckets count as ties."""

    def __init__(self, name: str = "auc") -> None:
        super().__init__(name=name, dtype=tf.float64)
        self._counts = self.add_weight(
            name="counts", shape=(2 * _BUCKETS,), initializer="zeros", dtype=tf.float64
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Adds examples; all of one shape, or `sample_weight` one that broadcasts to it."""
        p = tf.cast(tf.reshape(y_pred, [-1]), tf.float64)
        positive = tf.cast(tf.reshape(y_true, [-1]) > 0.5, tf.int32)
        weights = tf.ones_like(p)
        if sample_weight is not None:
            given = tf.cast(sample_weight, tf.float64)
            weights = tf.reshape(tf.broadcast_to(given, tf.shape(y_pred)), [-1])
        logits = tf.math.log(p) - tf.math.log1p(-p)
        places = (tf.clip_by_value(logits, _LEAST, _MOST) - _LEAST) / (_MOST - _LEAST)
        buckets = tf.cast(tf.round(places * (_BUCKETS - 1)), tf.int32) + positive * _BUCKETS
        if tf.distribute.has_strategy():
            # Variables of several replicas cannot be scattered to.
            counted = tf.math.unsorted_segment_sum(weights, buckets, 2 * _BUCKETS)
            return self._counts.assign_add(counted)
        # A batch touches few of the 4 MB.
        return self._counts.scatter_add(tf.IndexedSlices(weights, buckets))

    @property
    def counts(self) -> Any:
        """Weights of negatives and of positives by score, `[2, buckets]`."""
        return tf.reshape(tf.convert_to_tensor(self._counts), [2, _BUCKETS])

    def result(self) -> Any:
        """Returns how likely a positive example scores above a negative one, ties counting half;
        NaN if only one label is there."""
        negative, positive = tf.unstack(self.counts)
        below = tf.cumsum(negative, exclusive=True) + negative / 2
        pairs = tf.reduce_sum(positive) * tf.reduce_sum(negative)
        return tf.reduce_sum(positive * below) / pairs  # 0 / 0 of a single label
