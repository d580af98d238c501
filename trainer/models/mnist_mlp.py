"""784-100-10 with sigmoids: the first network most people train, 0.92 after a few epochs."""

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
    x = _layers.Flatten()(tf.cast(features["image"], tf.float32) / 255.0)
    x = _layers.Dense(100, activation=tf.nn.sigmoid)(x)
    logits = _layers.Dense(params["classes"])(x)
    return heads.build_estimator_spec(logits, features, labels, mode=mode, params=params)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    image, x = keras_images.build_image_input(columns)
    hidden = _keras.Dense(100, "sigmoid", name="hidden")
    return keras_images.build_class_model(image, x, params, parameters=parameters, hidden=hidden)
