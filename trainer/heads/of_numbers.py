"""Metrics of predicted numbers in an evaluation, as `make evaluate` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.heads import means


class RootMeanSquaredError(means.Mean):
    """Takes squared errors; NaN if all weights are 0."""

    def result(self) -> Any:
        """Returns the root of their mean."""
        return tf.sqrt(super().result())


class MeanAbsoluteError(means.Mean):
    """Takes squared errors; NaN if all weights are 0."""

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Adds the errors of examples."""
        return super().update_state(tf.sqrt(values), sample_weight=sample_weight)


METRICS: dict[str, Callable[..., means.Mean]] = {
    "rmse": RootMeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError,
}
