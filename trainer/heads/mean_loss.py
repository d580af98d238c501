"""The `loss` of an evaluation: its mean over the examples.

That of `tf.estimator` is the mean of the batches, of which the last may hold one example and counts
as much as any other (docs/tensorflow-pitfalls.md#mean-of-the-batches).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.heads import means


def add_mean_loss(spec: Any, features: Any, labels: Any) -> Any:
    """Returns the `EstimatorSpec` of an evaluation with the mean of its loss, unless the model has
    one of its own. Where all that is known of the loss of a batch is its value, it is taken for a
    mean, and counts as often as the batch has examples."""
    known: Mapping[str, Any] = spec.eval_metric_ops or {}
    if means.LOSS in known:
        return spec
    ours = means.average_batches(spec.loss, _count_examples(features, labels))
    return spec._replace(eval_metric_ops={**known, means.LOSS: ours})


def _count_examples(features: Any, labels: Any) -> Any:
    """Returns how many examples a batch has: rows of its labels, or of features without labels; 1
    if neither has rows."""
    given = [x for x in tf.nest.flatten((labels, features)) if x is not None]
    if not given:
        return tf.constant(1)
    if isinstance(given[0], tf.RaggedTensor):
        return given[0].nrows()
    return tf.concat([tf.shape(given[0]), [1]], axis=0)[0]


class Estimator(tf.estimator.Estimator):
    """An Estimator that gives this mean as `loss`."""

    def _assert_members_are_not_overridden(self) -> None:
        """Allows the method below."""

    def _evaluate_build_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Puts the mean in the place of that of the batches, which no spec can give: `loss` is
        refused among the metrics of a model."""
        scaffold, update, values, hooks = super()._evaluate_build_graph(*args, **kwargs)
        values[means.REPORTED] = values.pop(means.LOSS)
        return scaffold, update, values, hooks
