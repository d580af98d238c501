"""Keras models as users write them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def mixed(units: int = 8, width: int = 1):
    """Takes two features by name."""
    delay = tf.keras.Input([], name="delay")
    carrier = tf.keras.Input([], name="carrier", dtype=tf.int64)
    column = tf.keras.layers.Reshape([1])
    vector = tf.keras.layers.Flatten()(tf.keras.layers.Embedding(8, 2)(column(carrier)))
    x = tf.keras.layers.Concatenate()([column(delay), vector])
    x = tf.keras.layers.Dense(units, activation="relu")(x)
    x = tf.keras.layers.BatchNormalization()(x)
    last = {"activation": "sigmoid" if width == 1 else "softmax"}
    return tf.keras.Model([delay, carrier], tf.keras.layers.Dense(width, **last)(x))


def started():
    """One weight, which is 3 to begin with: it must stay so where nothing is learned."""
    x = tf.keras.Input([], name="delay")
    layer = tf.keras.layers.Dense(1, use_bias=False)
    model = tf.keras.Model(x, layer(tf.keras.layers.Reshape([1])(x)))
    layer.set_weights([np.array([[3.0]])])
    return model


def digits():
    """Of images; its one kernel is 3 everywhere to begin with."""
    image = tf.keras.Input([28, 28, 1], name="image")
    layer = tf.keras.layers.Dense(10, activation="softmax", use_bias=False, name="digit")
    model = tf.keras.Model(image, layer(tf.keras.layers.Flatten()(image)))
    layer.set_weights([np.full([784, 10], 3.0)])
    return model


def columns_of_one():
    """Takes features as `fit` of Keras does, as columns of one."""
    delay = tf.keras.Input([1], name="delay")
    carrier = tf.keras.Input([1], name="carrier", dtype=tf.int64)
    vector = tf.keras.layers.Flatten()(tf.keras.layers.Embedding(8, 2)(carrier))
    x = tf.keras.layers.Concatenate()([delay, vector])
    return tf.keras.Model([delay, carrier], tf.keras.layers.Dense(1, activation="sigmoid")(x))


def column_of_one():
    """Takes the only feature so."""
    return tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1, "sigmoid")])


def not_built():
    """Has no inputs."""
    return tf.keras.Sequential([tf.keras.layers.Dense(1)])


def no_model():
    """Returns something else."""
    return 3


def subclass():
    """Says only when it is called what it makes of what."""

    class Subclass(tf.keras.Model):
        def call(self, x):
            return x

    return Subclass()


class Half(tf.keras.layers.Layer):
    """A layer that Keras does not know."""

    def call(self, x):
        """Halves x."""
        return x / 2


def own_layer():
    """A network with a layer of its own."""
    delay = tf.keras.Input([], name="delay")
    carrier = tf.keras.Input([], name="carrier", dtype=tf.int64)
    x = Half()(tf.keras.layers.Reshape([1])(delay))
    y = tf.keras.layers.Embedding(8, 1)(carrier)
    last = tf.keras.layers.Dense(1, activation="sigmoid")
    return tf.keras.Model([delay, carrier], last(tf.keras.layers.Concatenate()([x, y])))
