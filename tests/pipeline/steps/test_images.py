"""Images against Pillow and NumPy."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from pipeline.steps import images

RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (6, 8, 3), np.uint8)


def _file(pixels, kind):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def _decode(contents, height, width, channels=3):
    step = images.Decode(height=height, width=width, channels=channels)
    return step.apply(tf.constant(contents))


def test_decoded_png_is_what_was_drawn():
    found = _decode([_file(PIXELS, "PNG"), _file(PIXELS[::-1], "PNG")], 6, 8)
    np.testing.assert_array_equal(found, np.stack([PIXELS, PIXELS[::-1]]).astype(np.float32))


def test_decoded_images_of_all_sizes_get_one():
    large = np.full((40, 30, 3), 200, np.uint8)
    grey = np.full((5, 5), 100, np.uint8)
    found = _decode([_file(large, "JPEG"), _file(grey, "PNG")], 10, 12).numpy()
    assert found.shape == (2, 10, 12, 3)
    np.testing.assert_allclose(found[0], 200, atol=2)
    np.testing.assert_array_equal(found[1], np.full((10, 12, 3), 100.0))


def test_decode_to_grey():
    assert _decode([_file(PIXELS, "PNG")], 6, 8, channels=1).shape == (1, 6, 8, 1)


def test_what_is_no_image_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError):
        _decode([b"no image"], 4, 4)


def test_resize_is_bilinear():
    """Halving takes the mean of the four pixels that meet."""
    x = PIXELS[np.newaxis].astype(np.float32)
    step = images.Resize(height=3, width=4)
    wanted = x.reshape(1, 3, 2, 4, 2, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(step.apply(tf.constant(x)), wanted, atol=1e-4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
def test_scale(low, high):
    step = images.Scale(min=low, max=high)
    found = step.apply(tf.constant(PIXELS[np.newaxis]))
    np.testing.assert_allclose(found, low + PIXELS[np.newaxis] / 255.0 * (high - low), atol=1e-6)


BATCH = np.repeat(PIXELS[np.newaxis], 64, axis=0)


def _augmented(**settings):
    tf.random.set_seed(5)
    step = images.Augment(**settings)
    return step.apply(tf.constant(BATCH)).numpy()


def test_flipped_or_not():
    found = _augmented(flip=True)
    same = (found == BATCH).all(axis=(1, 2, 3))
    mirrored = (found == BATCH[:, :, ::-1]).all(axis=(1, 2, 3))
    assert (same ^ mirrored).all()
    assert 10 < mirrored.sum() < 54


def test_moved_by_so_many_pixels_at_most():
    found = _augmented(shift=2)
    padded = np.pad(PIXELS, ((2, 2), (2, 2), (0, 0)), mode="edge")
    places = [
        {
            (i, j)
            for i in range(5)
            for j in range(5)
            if (padded[i : i + 6, j : j + 8] == image).all()
        }
        for image in found
    ]
    assert all(places)
    assert len(set().union(*places)) > 10


def test_brightness_and_contrast_stay_within_bounds():
    found = _augmented(brightness=0.1).astype(int) - BATCH
    inside = (BATCH > 30) & (BATCH < 225)
    assert np.abs(found[inside]).max() <= 26
    assert len(np.unique(found[inside])) > 10
    found = _augmented(contrast=0.5)
    assert found.dtype == np.uint8
    spread = found.astype(float).std(axis=(1, 2, 3)) / BATCH[0].std()
    assert 0.45 <= spread.min() < spread.max() <= 1.5


def test_nothing_asked_for_is_nothing_done():
    np.testing.assert_array_equal(_augmented(), BATCH)
