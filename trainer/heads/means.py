"""Means over examples that are NaN of none: those of Keras are 0 there, which of a loss is the best
there is."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from trainer.heads import in_graph


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


# What models call the mean of their loss among the metrics of an evaluation, and what it is
# reported as.
LOSS, REPORTED = "loss_of_examples", "loss"


def average_batches(loss: Any, count: Any) -> Mean:
    """Returns the mean of a loss over all examples of an evaluation, of the mean over each batch;
    `count` are those of a batch. The mean over none may be NaN."""
    made = Mean(name=LOSS, dtype=tf.float64)
    made.update_state(tf.where(count > 0, loss, tf.zeros_like(loss)), sample_weight=count)
    return made


_INSTEAD = {tf.keras.metrics.Mean: Mean, tf.keras.metrics.Accuracy: Accuracy}


class EvaluationBatch(NamedTuple):
    """Examples of an evaluation: their logits, labels, losses and weights, `[batch, ...]`."""

    logits: Any
    labels: Any
    losses: Any
    weights: Any


class OfSome:
    """A head of `tf.estimator` with such means, also of the loss of one among several heads."""

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Returns the metrics of an evaluation."""
        found: dict[str, Any] = super().metrics(regularization_losses)  # type: ignore[misc]
        return {
            key: _INSTEAD[type(made)](name=made.name, dtype=tf.float64)
            if type(made) in _INSTEAD
            else made
            for key, made in found.items()
        }

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Any = None,
    ) -> dict[str, Any]:
        """Returns the metrics, with the examples of a batch added."""
        given = (features, logits, labels, regularization_losses)
        head: Any = super()
        found: dict[str, Any] = head.update_metrics(eval_metrics, *given)
        if self.name is not None:  # type: ignore[attr-defined]
            loss = self.loss(labels, logits, features)  # type: ignore[attr-defined]
            mean = average_batches(loss, tf.shape(logits)[0])
            found[self._summary_key(REPORTED)] = mean  # type: ignore[attr-defined]
        losses, weights = self._unweighted_loss_and_weights(  # type: ignore[attr-defined]
            logits,
            self._processed_labels(logits, labels),  # type: ignore[attr-defined]
            features,
        )
        self.update_own(found, EvaluationBatch(logits, labels, losses, weights))
        return found

    def update_own(self, found: dict[str, Any], batch: EvaluationBatch) -> None:
        """Adds the examples of a batch to metrics that the head has besides."""
