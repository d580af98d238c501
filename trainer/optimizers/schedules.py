"""Learning rates over time, as a share of the one in the config."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from pipeline import config
from pipeline.config import optimizer_config


def compute_share(
    schedule: optimizer_config.Schedule, step: Any, length: config.Length | None
) -> Any:
    """Returns the share at global step `step`, a scalar float32 tensor.

    A schedule that lasts until training ends follows what has been read: after a change of the
    batches it continues where it was, as if all steps had been made with the present ones. Raises
    `ValueError` if the decay would take no step.
    """
    length = length or config.Length(0, 0)
    shift = 0 if schedule.decay_steps else length.last - length.whole
    steps = length.whole
    at = tf.cast(tf.maximum(tf.cast(step, tf.int64) - shift, 0), tf.float32)
    warm_up = float(schedule.warm_up_steps)
    since = tf.maximum(at - warm_up, 0.0)
    later = _after_warm_up(schedule, since, steps)
    if not schedule.warm_up_steps:
        return later
    # The step that is about to be made counts: the first one is not made in vain.
    return tf.where(at < warm_up, (at + 1.0) / warm_up, later)


def _after_warm_up(schedule: optimizer_config.Schedule, since: tf.Tensor, steps: int) -> tf.Tensor:
    if schedule.name == "constant":
        return tf.ones_like(since)
    length = float(schedule.decay_length(steps))
    if schedule.name == "exponential":
        return tf.constant(schedule.decay_rate) ** (since / length)
    done = tf.minimum(since / length, 1.0)
    return schedule.end + (1 - schedule.end) * (1 + tf.cos(math.pi * done)) / 2
