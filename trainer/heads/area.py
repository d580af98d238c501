"""The area under the ROC of an evaluation, exact or nearly so.

`tf.keras.metrics.AUC` looks at 200 thresholds spread over all probabilities; where the scores of a
rare class lie close together, few of those tell them apart, and the area is wrong in the second
digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from trainer.heads import in_graph

# Of the logit, which spreads probabilities near 0 and 1: 0.0005 wide, over all that float32 tells
# apart, from 1e-45 to 1 - 6e-8.
_BUCKETS = 2**18
_LEAST, _MOST = -104.0, 18.0
# Of one evaluation, 13 bytes each.
_MOST_KEPT = 2**22


class _Scores:
    """The scores of an evaluation in one replica, as long as they are not too many."""

    def __init__(self) -> None:
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._count = 0

    def clear(self) -> None:
        """Forgets all."""
        self._batches, self._count = [], 0

    def add(self, scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Adds `[batch]` scores, whether they are positive, and weights; returns how many examples
        there are."""
        self._count += len(scores)
        if self._count > _MOST_KEPT:
            self._batches = []
        else:
            self._batches.append((scores, positive.astype(bool), weights))
        return np.array(self._count, np.int64)

    def weigh(self, buckets: np.ndarray) -> np.ndarray:
        """Returns the weights of negatives and of positives by score, `[2, scores]`, the lowest
        first; `buckets`, `[2, buckets]`, if there are too many scores."""
        if not self._batches:
            return buckets
        scores, positive, weights = map(np.concatenate, zip(*self._batches, strict=True))
        _, places = np.unique(scores, return_inverse=True)
        return np.stack([np.bincount(places, weights * of) for of in (~positive, positive)])


class AreaUnderRoc(in_graph.Updated, tf.keras.metrics.Metric):
    """Takes probabilities of the positive class and labels of 0 and 1, with weights. Of up to four
    million examples in one replica it is exact; of more, and of several replicas, each of which
    has a metric of its own, scores within one of the buckets count as ties."""

    def __init__(self, name: str = "auc") -> None:
        super().__init__(name=name, dtype=tf.float64)
        self._counts = self.add_weight(
            name="counts", shape=(2 * _BUCKETS,), initializer="zeros", dtype=tf.float64
        )
        self._scores = _Scores()

    def reset_state(self) -> None:
        """Forgets all examples."""
        self._counts.assign(tf.zeros_like(self._counts))
        self._scores.clear()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Adds examples; all of one shape, or `sample_weight` one that broadcasts to it."""
        scores = tf.reshape(y_pred, [-1])
        p = tf.cast(scores, tf.float64)
        positive = tf.cast(tf.reshape(y_true, [-1]) > 0.5, tf.int32)
        weights = tf.ones_like(p)
        if sample_weight is not None:
            given = tf.cast(sample_weight, tf.float64)
            weights = tf.reshape(tf.broadcast_to(given, tf.shape(y_pred)), [-1])
        logits = tf.math.log(p) - tf.math.log1p(-p)
        places = (tf.clip_by_value(logits, _LEAST, _MOST) - _LEAST) / (_MOST - _LEAST)
        buckets = tf.cast(tf.round(places * (_BUCKETS - 1)), tf.int32) + positive * _BUCKETS
        kept = []
        if _is_alone():
            kept = [tf.numpy_function(self._scores.add, [scores, positive, weights], tf.int64)]
        with tf.control_dependencies(kept):
            if tf.distribute.has_strategy():
                # Variables of several replicas cannot be scattered to.
                counted = tf.math.unsorted_segment_sum(weights, buckets, 2 * _BUCKETS)
                return self._counts.assign_add(counted)
            # A batch touches few of the 4 MB.
            return self._counts.scatter_add(tf.IndexedSlices(weights, buckets))

    @property
    def counts(self) -> Any:
        """Weights of negatives and of positives by score, `[2, scores]`, the lowest first."""
        buckets = tf.reshape(tf.convert_to_tensor(self._counts), [2, _BUCKETS])
        if not _is_alone():
            return buckets
        weights = tf.numpy_function(self._scores.weigh, [buckets], tf.float64)
        return tf.ensure_shape(weights, [2, None])

    def result(self) -> Any:
        """Returns how likely a positive example scores above a negative one, ties counting half;
        NaN if only one label is there."""
        negative, positive = tf.unstack(self.counts)
        below = tf.cumsum(negative, exclusive=True) + negative / 2
        pairs = tf.reduce_sum(positive) * tf.reduce_sum(negative)
        return tf.reduce_sum(positive * below) / pairs  # 0 / 0 of a single label


def _is_alone() -> bool:
    return tf.distribute.get_strategy().num_replicas_in_sync == 1
