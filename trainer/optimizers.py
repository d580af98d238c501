"""Optimizers by name.

They are made anew for every graph, and are the `tf.compat.v1` ones: Keras optimizers do not
count the global step, and the new ones cannot run in graph mode (traps A31).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pipeline.config import Optimizer

_train = tf.compat.v1.train

_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "adam": _train.AdamOptimizer,
    "sgd": _train.GradientDescentOptimizer,
    "momentum": lambda rate: _train.MomentumOptimizer(rate, momentum=0.9),
    "adagrad": _train.AdagradOptimizer,
}


def train_op(loss: Any, optimizer: Optimizer) -> Any:
    """Returns the op that applies one update for `loss` and counts one global step."""
    rate = tf.constant(optimizer.learning_rate, tf.float32)
    tf.compat.v1.summary.scalar("learning_rate", rate)
    step = _train.get_or_create_global_step()
    return _BY_NAME[optimizer.name](rate).minimize(loss, global_step=step)
