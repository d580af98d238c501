"""What can be decoded and what cannot."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from PIL import Image

from preprocessing.arrow import image_values
from tests.preprocessing import pictures


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_good_ones(kind):
    assert image_values.find_problem(pictures.encode_picture(1, kind)) is None


def _flipped(content: bytes) -> bytes:
    """Changes a byte of the pixels."""
    at = content.index(b"IDAT") + 8
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        pictures.encode_picture(1)[:-30],
        pictures.encode_picture(1)[:-12],
        pictures.encode_picture(1)[:-16] + bytes(4) + pictures.encode_picture(1)[-12:],
        pictures.encode_picture(1, "JPEG")[:-200],
        _flipped(pictures.encode_picture(1)),
        pictures.encode_picture(1, "GIF"),
    ],
    ids=[
        "empty",
        "head",
        "png-head",
        "png-cut",
        "png-end",
        "png-sum",
        "jpeg-cut",
        "png-flipped",
        "gif",
    ],
)
def test_bad_ones(content):
    assert image_values.find_problem(content)
    assert f"{len(content)} bytes (" in image_values.describe(content)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_what_follows_the_last_chunk_does_not_matter(kind):
    content = pictures.encode_picture(1, kind) + b"more"
    assert image_values.find_problem(content) is None
    assert tf.io.decode_image(content).shape.rank == 3


@pytest.mark.parametrize("cut", [12, 4])
def test_tensorflow_reads_png_to_the_end(cut):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(pictures.encode_picture(1)[:-cut])


def test_a_picture_that_would_fill_the_memory(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    assert image_values.find_problem(pictures.encode_picture(1)) == "has more than 20 pixels"
    file = io.BytesIO()
    Image.new("1", (100, 100)).save(file, "PNG")
    assert image_values.find_problem(file.getvalue()) == "has more than 20 pixels"


def test_a_column():
    values = [pictures.encode_picture(1), None, b"x", pictures.encode_picture(2, "JPEG")]
    found = image_values.find_undecodable(pa.array(values, pa.binary()))
    assert found.tolist() == [False, False, True, False]


def _encoded(pixels: np.ndarray, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "PNG")
    return file.getvalue()


PIXELS = np.random.default_rng(1).integers(0, 256, (4, 6, 3), np.uint8)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_pixels_row_by_row_in_as_many_channels_as_wanted(mode):
    content = _encoded(PIXELS, mode)
    assert image_values.extract_pixels(content, (4, 6, 3)) == PIXELS.tobytes()
    with_alpha = np.concatenate([PIXELS, np.full((4, 6, 1), 255, np.uint8)], axis=2)
    assert image_values.extract_pixels(content, (4, 6, 4)) == with_alpha.tobytes()


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (24,)])
def test_pixels_of_a_column_without_colours(shape):
    grey = np.asarray(Image.fromarray(PIXELS).convert("L"))
    assert image_values.extract_pixels(_encoded(PIXELS), shape) == grey.tobytes()


@pytest.mark.parametrize("shape", [(6, 4), (4, 5, 3), (2, 12, 3)])
def test_an_image_of_another_size_is_another_image(shape):
    wanted = f"is an image of 4x6, the model takes {shape[0]}x{shape[1]}"
    with pytest.raises(ValueError, match=wanted):
        image_values.extract_pixels(_encoded(PIXELS), shape)


def test_pixels_of_what_cannot_be_decoded():
    with pytest.raises(ValueError, match="cannot identify image file"):
        image_values.extract_pixels(b"no image", (4, 6, 3))
