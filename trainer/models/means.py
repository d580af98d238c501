"""Means over examples that are NaN of none: those of Keras are 0 there, which of a loss is the best
there is."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.models import in_graph


class Mean(in_graph.Updated, tf.keras.metrics.Mean):
    """The weighted mean; NaN if all weights are 0."""

    def result(self) -> Any:
        """Returns the mean, 0 / 0 of nothing."""
        return self.total / self.count


class Accuracy(in_graph.Updated, tf.keras.metrics.Accuracy):
    """The share of right answers; NaN if all weights are 0."""

    def result(self) -> Any:
        """Returns the share, 0 / 0 of nothing."""
        return self.total / self.count


_INSTEAD = {tf.keras.metrics.Mean: Mean, tf.keras.metrics.Accuracy: Accuracy}


class OfSome:
    """A head of `tf.estimator` with such means."""

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Returns the metrics of an evaluation."""
        found: dict[str, Any] = super().metrics(regularization_losses)  # type: ignore[misc]
        return {
            key: _INSTEAD[type(made)](name=made.name) if type(made) in _INSTEAD else made
            for key, made in found.items()
        }
