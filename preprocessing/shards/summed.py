"""Temporary files whose length and CRC-32C are noted as they are written."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Iterator
from typing import Any

import google_crc32c
import numpy as np

from pipeline import storage

_READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Sum:
    """What a file must be: its length in bytes, and its CRC-32C (hexadecimal)."""

    bytes: int
    crc32c: str


# By name within one folder.
Sums = dict[str, Sum]


class _SummingFile(io.RawIOBase):
    """Passes on what is written to a file, and adds it up."""

    def __init__(self, file: Any) -> None:
        self._file, self._bytes = file, 0
        self._checksum = google_crc32c.Checksum()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def write(self, content: Any) -> int:
        view = np.frombuffer(content, np.uint8)  # the checksum takes no memoryview
        self._file.write(view)
        self._checksum.update(view)
        self._bytes += len(view)
        return len(view)

    @property
    def sum(self) -> Sum:
        return Sum(self._bytes, self._checksum.hexdigest().decode())


@contextlib.contextmanager
def create(path: str, sums: Sums | None) -> Iterator[Any]:
    """Opens a file to be written from start to end; notes what it is in `sums` once it is closed,
    if they are given."""
    with storage.open_file(path, "wb") as file:
        writing = file if sums is None else _SummingFile(file)
        yield writing
    if sums is not None:
        sums[_shorten_name(path)] = writing.sum


def write_text(path: str, text: str, sums: Sums | None) -> None:
    """Writes a small file as `storage.write_text` does; notes what it is in `sums`."""
    storage.write_text(path, text)
    if sums is not None:
        sums[_shorten_name(path)] = sum_text(text)


def sum_text(text: str) -> Sum:
    """Returns what a file that holds `text` is."""
    content = text.encode()
    return Sum(len(content), google_crc32c.Checksum(content).hexdigest().decode())


def is_whole(path: str, wanted: Sum) -> bool:
    """Tells if a file is what it must be. Reads all of it, unless the storage keeps a checksum."""
    if storage.is_remote(path):
        (found,) = storage.describe([path])
        return found is not None and Sum(found.size, str(found.crc32c)) == wanted
    size, checksum = 0, google_crc32c.Checksum()
    try:
        with storage.open_file(path) as file:
            while block := file.read(_READ_BYTES):
                checksum.update(block)
                size += len(block)
    except OSError:
        return False
    return Sum(size, checksum.hexdigest().decode()) == wanted


def _shorten_name(path: str) -> str:
    return path.rpartition("/")[2]
