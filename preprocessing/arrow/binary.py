"""Arrow's binary arrays seen as what they are: one buffer of bytes and the offsets into it.

Going through these is many times as fast as `to_pylist`, which makes a scalar object per value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

# Both keep their data in the third buffer; offsets are of 4 and of 8 bytes.
Binary: TypeAlias = pa.BinaryArray | pa.LargeBinaryArray


def read_offsets(array: Binary) -> np.ndarray:
    """Returns where each value begins in the data buffer, and where the last one ends."""
    width = np.int64 if array.type == pa.large_binary() else np.int32
    everything = np.frombuffer(array.buffers()[1] or b"", width)
    return everything[array.offset : array.offset + len(array) + 1]


def compute_lengths(array: Binary) -> np.ndarray:
    """Returns the number of bytes of each value."""
    return np.diff(read_offsets(array))


def view_data(array: Binary) -> np.ndarray:
    """Returns the bytes of all values, one after the other, without copying them."""
    if not len(array):
        return np.zeros(0, np.uint8)
    ends = read_offsets(array)
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]


def iterate_views(array: Binary) -> Iterator[np.ndarray]:
    """Yields each value as an array of bytes that shares the array's memory."""
    everything, ends = view_data(array), (read_offsets(array) - read_offsets(array)[:1]).tolist()
    return (everything[start:end] for start, end in itertools.pairwise(ends))


def iterate_copies(array: Binary) -> Iterator[bytes]:
    """Yields a copy of each value; faster than `iterate_views` for short ones."""
    everything, ends = (
        view_data(array).tobytes(),
        (read_offsets(array) - read_offsets(array)[:1]).tolist(),
    )
    return (everything[start:end] for start, end in itertools.pairwise(ends))


def copy_values(array: Binary) -> list[bytes]:
    """Returns a copy of each value."""
    return list(iterate_copies(array))


def cut(content: np.ndarray, sizes: np.ndarray) -> pa.LargeBinaryArray:
    """Cuts the bytes of `content` into one value per size, without copying them."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), buffers)
