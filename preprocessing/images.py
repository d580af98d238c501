"""Checks that bytes are a picture the trainer can decode."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pyarrow as pa
from PIL import Image

# What TensorFlow decodes in a graph; the names are Pillow's.
_FORMATS = ("PNG", "JPEG")


def problem(content: bytes) -> str | None:
    """Decodes an image to its last pixel. Returns what is wrong with it, or `None`."""
    try:
        # Pillow only warns of pictures of up to twice the pixels it refuses to decode.
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                image.load()
    # Pillow's decoders raise all of these for damaged files.
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError) as error:
        return str(error).partition("<")[0].strip() or type(error).__name__
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"has more than {Image.MAX_IMAGE_PIXELS:,} pixels"
    return None


def undecodable(array: pa.BinaryArray) -> np.ndarray:
    """Tells of each value of a column if it is there and cannot be decoded."""
    bad = np.zeros(len(array), bool)
    for row, value in enumerate(array):
        bad[row] = value.is_valid and problem(value.as_py()) is not None
    return bad


def described(content: bytes) -> str:
    """Says of bytes that cannot be decoded how many there are and what is wrong with them."""
    return f"{len(content):,} bytes ({problem(content) or 'an image'})"
