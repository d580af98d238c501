"""Steps of images: `[batch, height, width, channels]`, float32 or uint8, 0 to 255 until `scale`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.sections import Fraction, NotNegative, Positive
from pipeline.steps.base import Kind, Step

if TYPE_CHECKING:
    import tensorflow as tf


class Decode(Step):
    """Decodes a PNG, JPEG, GIF or BMP file, and resizes it."""

    takes = ("encoded",)
    gives = "image"
    outside_keras = True  # files have all sizes
    height: Positive
    """Height in pixels."""
    width: Positive
    """Width in pixels."""
    channels: Literal[1, 3] = 3
    """1 for grey, 3 for RGB."""

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of the pixels."""
        return (self.height, self.width, self.channels)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """The pixels of each file, brought to height x width as `resize` does."""
        import tensorflow as tf

        def decode_one(content: tf.Tensor) -> tf.Tensor:
            pixels = tf.io.decode_image(content, channels=self.channels, expand_animations=False)
            return tf.image.resize(pixels, [self.height, self.width])

        pixels = tf.map_fn(decode_one, x, fn_output_signature=tf.float32)
        return tf.ensure_shape(pixels, [None, self.height, self.width, self.channels])


class Resize(Step):
    """Resizes images by bilinear interpolation."""

    takes = ("image",)
    height: Positive
    """Height in pixels."""
    width: Positive
    """Width in pixels."""

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for what has no channels."""
        if len(shape) != 3:
            raise ValueError(f"takes shapes of [height, width, channels], and gets {list(shape)}")

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of the pixels, with as many channels."""
        return (self.height, self.width, shape[-1])

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Bilinear, with the centres of pixels at halves."""
        import tensorflow as tf

        return tf.image.resize(x, [self.height, self.width])


class Scale(Step):
    """Maps pixels from 0 to 255 to another range."""

    takes = ("image",)
    min: float = 0.0
    """What 0 becomes."""
    max: float = 1.0
    """What 255 becomes."""

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """min + x / 255 (max - min)."""
        import tensorflow as tf

        return self.min + tf.cast(x, tf.float32) * ((self.max - self.min) / 255.0)


class Augment(Step):
    """Changes images at random, in training only."""

    takes = ("image",)
    in_training_only = True
    flip: bool = False
    """Mirrors half of the images, left to right."""
    shift: NotNegative = 0
    """Largest shift in each direction, in pixels."""
    brightness: Fraction = 0.0
    """Largest change of the brightness, as a share of 255."""
    contrast: Fraction = 0.0
    """Largest change of the contrast, as a share of it."""

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Mirrored, moved, and contrast and brightness changed, each image by itself.

        With m the mean of an image: (x - m) c + m + 255 b, c in 1 +- contrast, b in +- brightness.
        """
        import tensorflow as tf

        dtype, x = x.dtype, tf.cast(x, tf.float32)
        batch = tf.shape(x)[0]
        if self.flip:
            mirrored = _reshape_per_image(tf.random.uniform([batch]) < 0.5)
            x = tf.where(mirrored, tf.reverse(x, axis=[2]), x)
        if self.shift:
            x = _shift(x, self.shift)
        if self.contrast:
            factor = _reshape_per_image(
                tf.random.uniform([batch], 1 - self.contrast, 1 + self.contrast)
            )
            mean = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True)
            x = (x - mean) * factor + mean
        if self.brightness:
            x += 255 * _reshape_per_image(
                tf.random.uniform([batch], -self.brightness, self.brightness)
            )
        return tf.cast(tf.clip_by_value(x, 0.0, 255.0), dtype)


def _reshape_per_image(of_image: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.reshape(of_image, [-1, 1, 1, 1])


def _shift(x: tf.Tensor, most: int) -> tf.Tensor:
    """Moves each image by up to `most` pixels each way; edges are repeated outwards."""
    import tensorflow as tf

    size = tf.shape(x)
    batch, height, width = size[0], size[1], size[2]

    def places(length: tf.Tensor) -> tf.Tensor:
        by = tf.random.uniform([batch, 1], -most, most + 1, tf.int32)
        return tf.clip_by_value(tf.range(length)[tf.newaxis] + by, 0, length - 1)

    shape = x.shape
    x = tf.gather(x, places(height), axis=1, batch_dims=1)
    return tf.ensure_shape(tf.gather(x, places(width), axis=2, batch_dims=1), shape)
