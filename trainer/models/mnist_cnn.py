"""Two 5x5 convolutions with pooling and a dense layer: 0.99 on MNIST after two or three epochs.

LeCun et al., Gradient-based learning applied to document recognition, 1998, with today's widths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.checkpoints.parameters import Parameters
from trainer.heads import heads
from trainer.networks import keras_images
from trainer.networks.keras_columns import KerasColumns

_layers = tf.compat.v1.layers
_keras = tf.keras.layers


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """Classifies `image`, `[batch, height, width, channels]` uint8."""
    x = tf.cast(features["image"], tf.float32) / 255.0
    for filters in (32, 64):
        x = _layers.Conv2D(filters, 5, padding="same", activation=tf.nn.relu)(x)
        x = _layers.MaxPooling2D(2, 2)(x)
    x = _layers.Dense(1024, activation=tf.nn.relu)(_layers.Flatten()(x))
    logits = _layers.Dense(params["classes"])(x)
    return heads.build_estimator_spec(logits, features, labels, mode=mode, params=params)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    image, x = keras_images.build_image_input(columns)
    for number, filters in enumerate((32, 64)):
        layer = _keras.Conv2D(filters, 5, padding="same", activation="relu", name=f"conv{number}")
        x = layer(x)
        parameters.load(layer, f"conv2d{f'_{number}' if number else ''}")
        x = _keras.MaxPooling2D(2, 2)(x)
    hidden = _keras.Dense(1024, "relu", name="hidden")
    return keras_images.build_class_model(image, x, params, parameters=parameters, hidden=hidden)
