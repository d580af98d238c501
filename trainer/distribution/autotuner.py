"""Keeps tf.data's autotuner out of every session.

Its thread sleeps between two looks, longer each time and up to a minute, and no cancellation wakes
it; closing the session waits for it. So a finished run stood still for up to a minute. There is
nothing to tune here: the pipelines of this package have fixed sizes.

An option of a dataset turns it off, but under a strategy that is not enough: each device has an
iterator of its own, over a dataset that TensorFlow makes without the options of the one that was
given (`MultiDeviceIterator` in multi_device_iterator_ops.py of 2.15).
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops as _devices

OPTIONS = tf.data.Options()
OPTIONS.deterministic = True
OPTIONS.autotune.enabled = False
# Rewriting a graph of thousands of columns takes seconds, and finds nothing to do.
OPTIONS.experimental_optimization.apply_default_optimizations = False

_make = _devices._create_device_dataset


@functools.wraps(_make)
def _make_untuned(*args: Any, **kwargs: Any) -> Any:
    return _make(*args, **kwargs).with_options(OPTIONS)


def keep_out_of_strategies() -> None:
    """Turns the autotuner off in the datasets that strategies make for their devices."""
    _devices._create_device_dataset = _make_untuned
