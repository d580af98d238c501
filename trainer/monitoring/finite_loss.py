"""Ends training when the loss is not a number, where no records are known to repeat it with."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from pipeline import errors

_train = tf.compat.v1.train


class FiniteLoss(tf.compat.v1.train.SessionRunHook):
    """Raises `ModelError` when the loss is not finite. Must come before the hook that saves:
    TensorFlow's `NanTensorHook` lets the chief save the broken parameters first."""

    def begin(self) -> None:
        """Finds the loss."""
        self._step = _train.get_or_create_global_step()
        # Estimator adds the loss of any model_fn to this collection, last.
        self._loss = tf.compat.v1.losses.get_losses()[-1]

    def before_run(self, run_context: Any) -> Any:
        """Fetches it with each step."""
        return _train.SessionRunArgs([self._loss, self._step])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks at it."""
        loss, step = run_values.results
        if not math.isfinite(loss):
            raise errors.ModelError(f"the loss is {loss:g} at step {int(step)}")
