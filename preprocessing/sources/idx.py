"""IDX files, the format MNIST is published in: one of images and one of labels per split.

A file is two zero bytes, a type code, the number of dimensions, each dimension as a big-endian
32-bit number, then the values (http://yann.lecun.com/exdb/mnist/). Plain files are cut into
ranges of rows. A gz file can only be read from its start, so it is one chunk, read as a
stream, decompressed once and never held whole; the records do not depend on which it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from pipeline import config, errors, storage
from preprocessing import schema
from preprocessing.sources import base

_UNSIGNED_BYTE = 0x08
_GZIP_MAGIC = b"\x1f\x8b"
_ROLES = ("images", "labels")


@dataclasses.dataclass(frozen=True)
class IdxFile:
    """What the header of an IDX file says. `offset` is where the values begin."""

    path: str
    compressed: bool
    shape: tuple[int, ...]
    offset: int

    @property
    def rows(self) -> int:
        """Length of the first dimension."""
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one image or label."""
        return math.prod(self.shape[1:])


@dataclasses.dataclass(frozen=True)
class Range:
    """Rows `first` to `first + rows` of a pair of files."""

    images: IdxFile
    labels: IdxFile
    first: int
    rows: int


class IdxSource(base.Source):
    """Images of unsigned bytes and their labels, from a pair of files per split."""

    def __init__(self, data: config.Data) -> None:
        super().__init__(data)
        self._image = _image_column(data)
        for split, inputs in data.inputs.items():
            if sorted(inputs) != sorted(_ROLES):
                raise errors.UsageError(
                    f"data.inputs.{split}: source idx takes {' and '.join(_ROLES)}, "
                    f"got {', '.join(sorted(inputs)) or 'nothing'}"
                )

    def files(self) -> list[base.RawFile]:
        """Returns images and labels of each split."""
        return [
            base.RawFile(f"{split}/{role}/{inputs[role].rpartition('/')[2]}", inputs[role])
            for split, inputs in sorted(self.data.inputs.items())
            for role in _ROLES
        ]

    def plan(self, split: str) -> list[base.Chunk]:
        """Reads both headers, compares them, and cuts the rows into chunks."""
        inputs = self.data.inputs[split]  # type: ignore[index]
        images = read_header(inputs["images"], dimensions=len(self._shape()) + 1)
        labels = read_header(inputs["labels"], dimensions=1)
        self._check_pair(images, labels)
        at_once = (
            images.rows
            if images.compressed or labels.compressed
            else _rows_in(images, base.CHUNK_BYTES)
        )
        return [
            base.Chunk(split, index, rows, Range(images, labels, first, rows))
            for index, first in enumerate(range(0, images.rows, at_once))
            for rows in [min(at_once, images.rows - first)]
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields rows keyed `train/000123`, counted from the start of the files."""
        part: Range = chunk.details
        files = {self._image: part.images.path, self.data.label: part.labels.path}
        wanted = schema.arrow_schema(self.data.columns)
        with _values(part.images, part) as images, _values(part.labels, part) as labels:
            for first, count in _steps(part, _rows_in(part.images, base.READ_BYTES)):
                pixels = _take(images, part.images, count)
                codes = np.frombuffer(_take(labels, part.labels, count), np.uint8)
                columns = {
                    self._image: _fixed_size(pixels, part.images.row_bytes),
                    self.data.label: pa.array(codes.astype(np.int64)),
                }
                batch = pa.record_batch([columns[name] for name in wanted.names], wanted)
                yield base.Rows(_keys(chunk.split, first, count), batch, first, files)
            _check_end(images, part.images, part)
            _check_end(labels, part.labels, part)

    def _shape(self) -> tuple[int, ...]:
        """The dimensions of an image in the file: the column's, without one grey channel."""
        shape = self.data.columns[self._image].shape
        return shape[:-1] if len(shape) == 3 and shape[-1] == 1 else shape

    def _check_pair(self, images: IdxFile, labels: IdxFile) -> None:
        if images.shape[1:] != self._shape():
            raise errors.DataError(
                f"{images.path!r}: images of {_times(images.shape[1:])}, "
                f"column {self._image!r} of the config has {_times(self._shape())}"
            )
        if images.rows != labels.rows:
            raise errors.DataError(
                f"{images.path!r} has {images.rows} images, {labels.path!r} has "
                f"{labels.rows} labels; the counts must be equal"
            )


def read_header(path: str, dimensions: int) -> IdxFile:
    """Reads and checks the header of an IDX file of unsigned bytes.

    Raises `DataError` if the file is missing, empty, not IDX, of another type or number of
    dimensions, without rows, or (where that can be seen without reading it) of a wrong length.
    """
    with _translated(path):
        compressed = _is_gzip(path)
        with _open(path, compressed) as file:
            head = file.read(4 + 4 * dimensions)
    if len(head) < 4:
        raise errors.DataError(f"{path!r}: {len(head) or 'no'} bytes; an IDX file has a header")
    zeros, code, found = struct.unpack(">HBB", head[:4])
    if zeros != 0 or code != _UNSIGNED_BYTE or found != dimensions:
        wanted = struct.pack(">HBB", 0, _UNSIGNED_BYTE, dimensions)
        raise errors.DataError(
            f"{path!r}: begins with {head[:4].hex()}, must be {wanted.hex()} "
            f"(IDX of unsigned bytes with {dimensions} dimension{'s' if dimensions > 1 else ''})"
        )
    if len(head) < 4 + 4 * dimensions:
        raise errors.DataError(f"{path!r}: truncated in its header after {len(head)} bytes")
    header = IdxFile(path, compressed, struct.unpack(f">{dimensions}I", head[4:]), len(head))
    if header.rows == 0:
        raise errors.DataError(f"{path!r}: its header says 0 rows")
    if not compressed:
        _check_length(header, storage.size(path))
    return header


def _check_length(header: IdxFile, found: int) -> None:
    wanted = header.offset + header.rows * header.row_bytes
    if found < wanted:
        raise errors.DataError(
            f"{header.path!r}: truncated: {found} bytes, its header says {wanted}"
        )
    if found > wanted:
        raise errors.DataError(
            f"{header.path!r}: {found - wanted} bytes too many: {found}, its header says {wanted}"
        )


def _image_column(data: config.Data) -> str:
    others = [name for name in data.columns if name != data.label]
    label = data.columns[data.label]
    if len(others) != 1 or data.columns[others[0]].type != "uint8":
        raise errors.UsageError(
            "data.columns: source idx gives one uint8 column of images beside the label, "
            f"the config has {', '.join(others) or 'none'}"
        )
    if label.type != "int64" or label.shape:
        raise errors.UsageError(f"data.columns.{data.label}: source idx gives one int64 a row")
    return others[0]


def _rows_in(images: IdxFile, size: int) -> int:
    return max(1, size // images.row_bytes)


def _steps(part: Range, rows: int) -> Iterator[tuple[int, int]]:
    for first in range(part.first, part.first + part.rows, rows):
        yield first, min(rows, part.first + part.rows - first)


def _keys(split: str, first: int, count: int) -> pa.BinaryArray:
    prefix = split.encode()
    return pa.array([b"%b/%06d" % (prefix, row) for row in range(first, first + count)])


def _fixed_size(data: bytes, row_bytes: int) -> pa.FixedSizeBinaryArray:
    buffers = [None, pa.py_buffer(data)]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(row_bytes), len(data) // row_bytes, buffers
    )


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "1"


def _is_gzip(path: str) -> bool:
    with storage.open_file(path) as file:
        return bool(file.read(2) == _GZIP_MAGIC)


@contextlib.contextmanager
def _open(path: str, compressed: bool) -> Iterator[IO[bytes]]:
    with storage.open_file(path) as file:
        yield gzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[misc]


@contextlib.contextmanager
def _values(header: IdxFile, part: Range) -> Iterator[IO[bytes]]:
    """Opens a file at the first value of `part`."""
    with _translated(header.path), _open(header.path, header.compressed) as file:
        file.seek(header.offset + part.first * header.row_bytes)
        yield file


def _take(file: IO[bytes], header: IdxFile, rows: int) -> bytes:
    with _translated(header.path):
        data = file.read(rows * header.row_bytes)
    if len(data) < rows * header.row_bytes:
        raise errors.DataError(
            f"{header.path!r}: truncated: its header says {header.rows} rows "
            f"of {header.row_bytes} bytes, there are fewer"
        )
    return data


def _check_end(file: IO[bytes], header: IdxFile, part: Range) -> None:
    """Reads on to the end, where gz keeps its checksum, and refuses what does not belong there."""
    if part.first + part.rows < header.rows:
        return
    with _translated(header.path):
        if file.read(1):
            raise errors.DataError(
                f"{header.path!r}: bytes too many after the {header.rows} rows of its header"
            )


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turns what reading a file can raise into a `DataError` that names it."""
    try:
        yield
    except FileNotFoundError:
        raise errors.DataError(f"{path!r}: no such file") from None
    except EOFError:
        raise errors.DataError(f"{path!r}: truncated: the gz stream ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise errors.DataError(f"{path!r}: corrupt gz: {error}") from None
    except OSError as error:
        raise errors.DataError(f"{path!r}: cannot be read: {error.strerror or error}") from None
