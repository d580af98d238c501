"""Transforms of numbers, on batches of any shape. Settings are those of `pipeline.feature_config`,
with nothing left open."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from pipeline import feature_config


def is_missing(x: tf.Tensor, stand_in: int | float | str | None) -> tf.Tensor:
    """Returns where `x` is what stands for a missing value: booleans of its shape."""
    found = tf.zeros_like(x, tf.bool) if x.dtype != tf.float32 else tf.math.is_nan(x)
    if stand_in is None or stand_in != stand_in:  # NaN, which is found already
        return found
    return found | tf.equal(x, stand_in)


def missing(x: tf.Tensor, step: feature_config.Missing) -> tf.Tensor:
    """`fill` where x is missing, else x."""
    return tf.where(~is_missing(x, step.stand_in), x, step.fill)


def z_score(x: tf.Tensor, step: feature_config.ZScore) -> tf.Tensor:
    """(x - mean) / deviation."""
    return (_float(x) - _set(step.mean)) / _set(step.deviation)


def min_max(x: tf.Tensor, step: feature_config.MinMax) -> tf.Tensor:
    """(x - min) / (max - min)."""
    return (_float(x) - _set(step.min)) / (_set(step.max) - _set(step.min))


def log1p(x: tf.Tensor, step: feature_config.Log1p) -> tf.Tensor:
    """ln(1 + x)."""
    return tf.math.log1p(_float(x))


def clip(x: tf.Tensor, step: feature_config.Clip) -> tf.Tensor:
    """min(max(x, min), max)."""
    x = _float(x)
    x = x if step.min is None else tf.maximum(x, step.min)
    return x if step.max is None else tf.minimum(x, step.max)


def _float(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32)


def _set(setting: Any) -> float:
    assert setting is not None, "the plan has filled it in"
    return float(setting)
