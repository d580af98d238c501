"""First and last layers of networks for images of digits, as Keras models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.checkpoints.parameters import Parameters
from trainer.networks import keras_columns
from trainer.networks.keras_columns import KerasColumns

_layers = tf.keras.layers


def build_image_input(columns: KerasColumns) -> tuple[Any, Any]:
    """Returns the input, and its pixels divided by 255: `Rescaling` would multiply by 1/255, which
    is another number in the last bit."""
    image = keras_columns.build_inputs(columns.features)["image"]
    return image, _layers.Normalization(axis=None, mean=0.0, variance=255.0**2)(image)


def build_class_model(
    image: Any, x: Any, params: Mapping[str, Any], *, parameters: Parameters, hidden: Any
) -> Any:
    """Returns the model of the class of an image, whose last but one layer is `hidden`, on `x`."""
    x = hidden(_layers.Flatten()(x))
    parameters.load(hidden, "dense")
    last = _layers.Dense(params["classes"], name="logits")
    x = last(x)
    parameters.load(last, "dense_1")
    probabilities = _layers.Activation("softmax", name="output")(x)
    return tf.keras.Model({"image": image}, probabilities, name="network")
