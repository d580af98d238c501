"""Learning rates over time, as a share of the one in the config."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from pipeline import optimizer_config


def share(schedule: optimizer_config.Schedule, step: Any, steps: int | None) -> Any:
    """Returns the share at global step `step`, a scalar float32 tensor.

    `steps` is when training ends. Raises `ValueError` if the decay would take no step.
    """
    at = tf.cast(step, tf.float32)
    warm_up = float(schedule.warm_up_steps)
    since = tf.maximum(at - warm_up, 0.0)
    later = _after_warm_up(schedule, since, steps)
    if not schedule.warm_up_steps:
        return later
    # The step that is about to be made counts: the first one is not made in vain.
    return tf.where(at < warm_up, (at + 1.0) / warm_up, later)


def _after_warm_up(
    schedule: optimizer_config.Schedule, since: tf.Tensor, steps: int | None
) -> tf.Tensor:
    if schedule.name == "constant":
        return tf.ones_like(since)
    length = float(schedule.decay_length(steps or 0))
    if schedule.name == "exponential":
        return tf.constant(schedule.decay_rate) ** (since / length)
    done = tf.minimum(since / length, 1.0)
    return schedule.end + (1 - schedule.end) * (1 + tf.cos(math.pi * done)) / 2
