"""The networks for images of digits as Keras models, with parameters of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.checkpoints.parameters import Parameters
from trainer.migration import keras_columns
from trainer.migration.keras_columns import KerasColumns

_layers = tf.keras.layers


def cnn(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `mnist_cnn`."""
    image, x = _image(columns)
    for number, filters in enumerate((32, 64)):
        layer = _layers.Conv2D(filters, 5, padding="same", activation="relu", name=f"conv{number}")
        x = layer(x)
        parameters.load(layer, f"conv2d{f'_{number}' if number else ''}")
        x = _layers.MaxPooling2D(2, 2)(x)
    return _classes(
        image, x, params, parameters=parameters, hidden=_layers.Dense(1024, "relu", name="hidden")
    )


def mlp(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `mnist_mlp`."""
    image, x = _image(columns)
    return _classes(
        image, x, params, parameters=parameters, hidden=_layers.Dense(100, "sigmoid", name="hidden")
    )


def _image(columns: KerasColumns) -> tuple[Any, Any]:
    """Returns the input, and its pixels divided by 255: `Rescaling` would multiply by 1/255, which
    is another number in the last bit."""
    image = keras_columns.keras_inputs(columns.features)["image"]
    return image, _layers.Normalization(axis=None, mean=0.0, variance=255.0**2)(image)


def _classes(
    image: Any, x: Any, params: Mapping[str, Any], *, parameters: Parameters, hidden: Any
) -> Any:
    x = hidden(_layers.Flatten()(x))
    parameters.load(hidden, "dense")
    last = _layers.Dense(params["classes"], name="logits")
    x = last(x)
    parameters.load(last, "dense_1")
    probabilities = _layers.Activation("softmax", name="output")(x)
    return tf.keras.Model({"image": image}, probabilities, name="network")
