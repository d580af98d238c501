"""Metrics of the positive class that are NaN where they are not defined; those of Keras are 0
there, as if the model had failed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.heads import in_graph


class Precision(in_graph.Updated, tf.keras.metrics.Precision):
    """The share of positives among what is taken for positive; NaN if nothing is."""

    def __init__(self, name: str = "precision") -> None:
        super().__init__(name=name)

    def result(self) -> Any:
        """Returns the precision, 0 / 0 of nothing."""
        return tf.squeeze(self.true_positives / (self.true_positives + self.false_positives))


class Recall(in_graph.Updated, tf.keras.metrics.Recall):
    """The share of the positives that is found; NaN without positives."""

    def __init__(self, name: str = "recall") -> None:
        super().__init__(name=name)

    def result(self) -> Any:
        """Returns the recall, 0 / 0 of none."""
        return tf.squeeze(self.true_positives / (self.true_positives + self.false_negatives))
