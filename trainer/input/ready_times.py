"""When each batch was ready: how late the input of a process is, whatever else that waits for."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class TimedFeatures(NamedTuple):
    """Features of a batch, and when that was ready: the Unix time in seconds."""

    features: Any
    ready: tf.Tensor


def add(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds to batches of (features, labels) when they are taken from `dataset`. That is when they
    are ready if what comes next prefetches."""
    return dataset.map(_add_time)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _add_time(features: Any, labels: Any) -> tuple[TimedFeatures, Any]:
    return TimedFeatures(features, tf.timestamp()), labels
