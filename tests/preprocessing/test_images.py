"""What can be decoded and what cannot."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from PIL import Image

from preprocessing import images
from tests.preprocessing import pictures


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_good_ones(kind):
    assert images.problem(pictures.encoded(1, kind)) is None


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
        pictures.encoded(1)[:-30],
        pictures.encoded(1, "JPEG")[:-200],
        _flipped(pictures.encoded(1)),
        pictures.encoded(1, "GIF"),
    ],
    ids=["empty", "head", "png-head", "png-cut", "jpeg-cut", "png-flipped", "gif"],
)
def test_bad_ones(content):
    assert images.problem(content)
    assert f"{len(content)} bytes (" in images.described(content)


def test_a_picture_that_would_fill_the_memory(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    assert images.problem(pictures.encoded(1)) == "has more than 20 pixels"
    file = io.BytesIO()
    Image.new("1", (100, 100)).save(file, "PNG")
    assert images.problem(file.getvalue()) == "has more than 20 pixels"


def test_a_column():
    values = [pictures.encoded(1), None, b"x", pictures.encoded(2, "JPEG")]
    found = images.undecodable(pa.array(values, pa.binary()))
    assert found.tolist() == [False, False, True, False]
