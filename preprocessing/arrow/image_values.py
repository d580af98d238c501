"""Pictures as bytes: whether the trainer can decode them, and their pixels."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np
import pyarrow as pa
from PIL import Image

from pipeline.records import file_kinds

# What TensorFlow decodes in a graph; the names are Pillow's.
_FORMATS = ("PNG", "JPEG")
_ANCILLARY = 0x20  # the bit of a chunk's name that says that readers may do without it
# Pillow's names of pixels, by how many channels they have.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def find_problem(content: bytes) -> str | None:
    """Decodes an image to its last pixel. Returns what is wrong with it, or `None`."""
    try:
        image = decode(content)
    except ValueError as error:
        return str(error)
    # Pillow stops where the pixels end, TensorFlow does not.
    if image.format == "PNG" and not _is_whole_png(content):
        return "image file is truncated or damaged after its pixels"
    return None


def decode(content: bytes) -> Image.Image:
    """Returns an image with all its pixels. Raises `ValueError` saying what is wrong with it."""
    try:
        # Pillow only warns of pictures of up to twice the pixels it refuses to decode.
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content), formats=_FORMATS)
            image.load()
    # Pillow's decoders raise all of these for damaged files.
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError) as error:
        said = str(error).partition("<")[0].strip() or type(error).__name__
        raise ValueError(said) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"has more than {Image.MAX_IMAGE_PIXELS:,} pixels") from None
    return image


def _is_whole_png(content: bytes) -> bool:
    """Tells if all chunks up to the last are there, those that matter with their checksums."""
    at = len(file_kinds.PNG_MARK)
    while at + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        end = at + 8 + length
        wrong = content[end : end + 4] != zlib.crc32(content[at + 4 : end]).to_bytes(4, "big")
        if wrong and not kind[0] & _ANCILLARY:
            return False
        if kind == b"IEND":
            return True
        at = end + 4
    return False


def extract_pixels(content: bytes, shape: tuple[int, ...]) -> bytes:
    """Returns the bytes of a uint8 column: all pixels of an image, row by row.

    `shape` is `[height, width]`, `[height, width, channels]` of 1, 3 or 4 channels, or as many
    values flat. Raises `ValueError` for an image of another size, or that cannot be decoded.
    """
    image = decode(content)
    channels = shape[2] if len(shape) == 3 else 1
    # A column that takes a flat row of pixels does not say how many rows they were.
    if shape[:2] != (image.height, image.width) and shape != (image.height * image.width,):
        wanted = "x".join(map(str, shape[:2]))
        raise ValueError(f"is an image of {image.height}x{image.width}, the model takes {wanted}")
    return np.asarray(image.convert(_MODES[channels])).tobytes()


def find_undecodable(array: pa.BinaryArray) -> np.ndarray:
    """Tells of each value of a column if it is there and cannot be decoded."""
    bad = np.zeros(len(array), bool)
    for row, value in enumerate(array):
        bad[row] = value.is_valid and find_problem(value.as_py()) is not None
    return bad


def describe(content: bytes) -> str:
    """Says of bytes that cannot be decoded how many there are and what is wrong with them."""
    return f"{len(content):,} bytes ({find_problem(content) or 'an image'})"
