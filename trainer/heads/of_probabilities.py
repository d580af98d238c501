"""Metrics of the probabilities of classes in an evaluation, as `make evaluate` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.heads import in_graph
from trainer.heads.area import AreaUnderRoc

# What float32 tells from 0 and 1: probabilities are clipped to it, as by scikit-learn.
_LEAST = 2.0**-23
# Of the mean log loss, the mean probability and the share of positives.
Result = Callable[[Any, Any, Any], Any]


def compute_losses(probabilities: Any, labels: Any) -> Any:
    """Returns the log loss of each example, `[batch]` float64, in nats: of probabilities of the
    classes, `[batch, classes]` float32, and labels from 0 on, `[batch]` whole numbers."""
    likelihood = tf.gather(probabilities, labels, batch_dims=1)
    clipped = tf.clip_by_value(likelihood, _LEAST, 1 - _LEAST)
    return -tf.math.log(tf.cast(clipped, tf.float64))


class OfProbabilities(in_graph.Updated, tf.keras.metrics.Metric):
    """Takes probabilities of the positive class and labels of 0 and 1, with weights, and means them
    over all examples; its result is one of the functions below."""

    def __init__(self, name: str, result: Result) -> None:
        super().__init__(name=name, dtype=tf.float64)
        self._result = result
        self._sums = self.add_weight(name="sums", shape=(4,), initializer="zeros", dtype=tf.float64)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Adds examples: `y_true` is `[batch, 1]`, `y_pred` `[batch, 2]`, float32."""
        label = tf.cast(tf.cast(tf.reshape(y_true, [-1]), tf.float32) > 0.5, tf.int64)
        positive = tf.cast(label, tf.float64)
        ones = tf.ones_like(positive)
        weights = ones
        if sample_weight is not None:
            weights = ones * tf.cast(tf.reshape(sample_weight, [-1]), tf.float64)
        probability = tf.cast(y_pred[:, 1], tf.float64)
        values = tf.stack([ones, compute_losses(y_pred, label), probability, positive])
        return self._sums.assign_add(tf.reduce_sum(values * weights, axis=1))

    def result(self) -> Any:
        """Returns the metric, NaN where it is not defined."""
        count, *sums = tf.unstack(tf.convert_to_tensor(self._sums))
        return self._result(*(one / count for one in sums))


def log_loss(loss: Any, mean: Any, rate: Any) -> Any:
    """Returns the log loss, in nats."""
    return loss


def normalized_entropy(loss: Any, mean: Any, rate: Any) -> Any:
    """Returns the log loss over the entropy of the share of positives."""
    entropy = -tf.math.xlogy(rate, rate) - tf.math.xlog1py(1 - rate, -rate)
    return tf.where(entropy > 0, loss / entropy, tf.constant(float("nan"), tf.float64))


def calibration(loss: Any, mean: Any, rate: Any) -> Any:
    """Returns the mean probability over the share of positives."""
    return tf.where(rate > 0, mean / rate, tf.constant(float("nan"), tf.float64))


def accuracy_baseline(loss: Any, mean: Any, rate: Any) -> Any:
    """Returns the share of the more frequent label. That of `BinaryClassHead` reads the counts of
    one replica, which of two gives about half."""
    return tf.maximum(rate, 1 - rate)


RESULTS = {f.__name__: f for f in (log_loss, normalized_entropy, calibration, accuracy_baseline)}


class AveragePrecision(in_graph.Updated, tf.keras.metrics.Metric):
    """The mean precision at each positive example, of what an area under the ROC has counted."""

    def __init__(self, area: AreaUnderRoc, name: str = "average_precision") -> None:
        super().__init__(name=name, dtype=tf.float64)
        self._area = area

    def update_state(self, *_: Any, **__: Any) -> Any:
        """Adds nothing: the area counts."""
        return tf.constant(0.0, tf.float64)

    def result(self) -> Any:
        """Returns the precision, NaN if only one label is there."""
        negative, positive = tf.unstack(self._area.counts)
        # The highest scores first.
        here = tf.reverse(positive, [0])
        true, false = tf.cumsum(here), tf.cumsum(tf.reverse(negative, [0]))
        precision = tf.math.divide_no_nan(true, true + false)
        value = tf.reduce_sum(here * precision) / true[-1]
        return tf.where(false[-1] > 0, value, tf.constant(float("nan"), tf.float64))
