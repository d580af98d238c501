"""Two 5x5 convolutions with pooling and a dense layer: 0.99 on MNIST after two or three epochs.

LeCun et al., Gradient-based learning applied to document recognition, 1998, with today's widths.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.models import heads

_layers = tf.compat.v1.layers


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """Classifies `image`, `[batch, height, width, channels]` uint8."""
    x = tf.cast(features["image"], tf.float32) / 255.0
    for filters in (32, 64):
        x = _layers.Conv2D(filters, 5, padding="same", activation=tf.nn.relu)(x)
        x = _layers.MaxPooling2D(2, 2)(x)
    x = _layers.Dense(1024, activation=tf.nn.relu)(_layers.Flatten()(x))
    logits = _layers.Dense(params["classes"])(x)
    return heads.estimator_spec(logits, features, labels, mode=mode, params=params)
