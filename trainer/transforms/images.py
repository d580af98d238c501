"""Transforms of images: `[batch, height, width, channels]`, float32 or uint8, 0 to 255 until
`scale`."""

from __future__ import annotations

import tensorflow as tf

from pipeline import feature_config


def decode(x: tf.Tensor, step: feature_config.Decode) -> tf.Tensor:
    """The pixels of each file, brought to height x width as `resize` does."""

    def one(content: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_image(content, channels=step.channels, expand_animations=False)
        return tf.image.resize(pixels, [step.height, step.width])

    pixels = tf.map_fn(one, x, fn_output_signature=tf.float32)
    return tf.ensure_shape(pixels, [None, step.height, step.width, step.channels])


def resize(x: tf.Tensor, step: feature_config.Resize) -> tf.Tensor:
    """Bilinear, with the centres of pixels at halves."""
    return tf.image.resize(x, [step.height, step.width])


def scale(x: tf.Tensor, step: feature_config.Scale) -> tf.Tensor:
    """min + x / 255 (max - min)."""
    return step.min + tf.cast(x, tf.float32) * ((step.max - step.min) / 255.0)


def augment(x: tf.Tensor, step: feature_config.Augment) -> tf.Tensor:
    """In training only: mirrored, moved, and contrast and brightness changed, each image by itself.

    With m the mean of an image: (x - m) c + m + 255 b, c in 1 +- contrast, b in +- brightness.
    """
    dtype, x = x.dtype, tf.cast(x, tf.float32)
    batch = tf.shape(x)[0]
    if step.flip:
        mirrored = _each(tf.random.uniform([batch]) < 0.5)
        x = tf.where(mirrored, tf.reverse(x, axis=[2]), x)
    if step.shift:
        x = _moved(x, step.shift)
    if step.contrast:
        factor = _each(tf.random.uniform([batch], 1 - step.contrast, 1 + step.contrast))
        mean = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True)
        x = (x - mean) * factor + mean
    if step.brightness:
        x += 255 * _each(tf.random.uniform([batch], -step.brightness, step.brightness))
    return tf.cast(tf.clip_by_value(x, 0.0, 255.0), dtype)


def _each(of_image: tf.Tensor) -> tf.Tensor:
    return tf.reshape(of_image, [-1, 1, 1, 1])


def _moved(x: tf.Tensor, most: int) -> tf.Tensor:
    """Moves each image by up to `most` pixels each way; edges are repeated outwards."""
    size = tf.shape(x)
    batch, height, width = size[0], size[1], size[2]

    def places(length: tf.Tensor) -> tf.Tensor:
        by = tf.random.uniform([batch, 1], -most, most + 1, tf.int32)
        return tf.clip_by_value(tf.range(length)[tf.newaxis] + by, 0, length - 1)

    shape = x.shape
    x = tf.gather(x, places(height), axis=1, batch_dims=1)
    return tf.ensure_shape(tf.gather(x, places(width), axis=2, batch_dims=1), shape)
