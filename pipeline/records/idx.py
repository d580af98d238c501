"""IDX files, the format MNIST is published in: a header, then unsigned bytes, plain or gz.

A file is two zero bytes, a type code, the number of dimensions, each dimension as a big-endian
32-bit number, then the values (http://yann.lecun.com/exdb/mnist/).
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

from pipeline import errors, storage
from pipeline.records import file_kinds

_UNSIGNED_BYTE = 0x08


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


def read_header(path: str, dimensions: int) -> IdxFile:
    """Reads and checks the header of an IDX file of unsigned bytes.

    Raises `DataError` if the file is missing, empty, not IDX, of another type or number of
    dimensions, without rows, or (where that can be seen without reading it) of a wrong length.
    """
    with _translate_errors(path), storage.open_file(path) as raw:
        compressed = _is_gzip(raw.read(file_kinds.HEAD_BYTES))
        raw.seek(0)
        header = _parse_header(_unpack(raw, compressed), path, dimensions, compressed=compressed)
    if not compressed:
        _check_length(header, storage.size(path))
    return header


def dimensions(path: str) -> int:
    """Returns how many dimensions an IDX file says it has. Raises `DataError` if it is missing."""
    with _translate_errors(path), storage.open_file(path) as raw:
        compressed = _is_gzip(raw.read(file_kinds.HEAD_BYTES))
        raw.seek(0)
        head = _unpack(raw, compressed).read(4)
    return head[3] if len(head) == 4 else 0


@contextlib.contextmanager
def open_rows(header: IdxFile, first: int = 0) -> Iterator[IO[bytes]]:
    """Opens a file at the first value of row `first`."""
    with _translate_errors(header.path), storage.open_file(header.path) as raw:
        file = _unpack(raw, header.compressed)
        file.seek(header.offset + first * header.row_bytes)
        yield file


def take(file: IO[bytes], header: IdxFile, rows: int) -> bytes:
    """Reads the next `rows` rows. Raises `DataError` if there are fewer."""
    with _translate_errors(header.path):
        data = file.read(rows * header.row_bytes)
    if len(data) < rows * header.row_bytes:
        raise errors.DataError(
            f"{header.path!r}: truncated: its header says {header.rows} rows "
            f"of {header.row_bytes} bytes, but the file is shorter"
        )
    return data


def check_end(file: IO[bytes], header: IdxFile) -> None:
    """Reads on to the end, where gz keeps its checksum, and refuses what does not belong there."""
    with _translate_errors(header.path):
        if file.read(1):
            raise errors.DataError(
                f"{header.path!r}: bytes too many after the {header.rows} rows of its header"
            )


def _parse_header(file: IO[bytes], path: str, dimensions: int, *, compressed: bool) -> IdxFile:
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


def _is_gzip(head: bytes) -> bool:
    return file_kinds.detect(head) is file_kinds.GZIP


def _unpack(raw: IO[bytes], compressed: bool) -> IO[bytes]:
    return gzip.GzipFile(fileobj=raw) if compressed else raw  # type: ignore[return-value]


@contextlib.contextmanager
def _translate_errors(path: str) -> Iterator[None]:
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
