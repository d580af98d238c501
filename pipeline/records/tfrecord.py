"""The TFRecord file format, as TensorFlow's `core/lib/io/record_writer.h` has it.

A record is its length (8 bytes), the masked CRC-32C of these (4 bytes), the payload, and the
masked CRC-32C of the payload (4 bytes); numbers are little-endian. Nothing here needs TensorFlow.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from pipeline import errors, storage

HEADER_BYTES = 12
FOOTER_BYTES = 4
MASK_DELTA = 0xA282EAD8
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_ALTERED = "the CRC of its payload is wrong; it was altered"


def compute_masked_crc32c(data: bytes) -> int:
    """Returns the CRC-32C of `data`, masked so that a file of CRCs does not checksum to itself."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """Returns the 12 bytes in front of a payload of `length` bytes."""
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(compute_masked_crc32c(packed))


def frame(payload: bytes) -> bytes:
    """Returns one whole record."""
    return header(len(payload)) + payload + _CRC.pack(compute_masked_crc32c(payload))


class CorruptRecord(errors.DataError):
    """What is wrong with a record; who reads it knows where it is."""


def walk(content: bytes) -> Iterator[bytes]:
    """Yields the payloads of whole records that lie in memory. Raises `CorruptRecord`."""
    at = 0
    while at < len(content):
        length = length_in(content[at : at + HEADER_BYTES])
        at += HEADER_BYTES
        payload = content[at : at + length]
        at += length
        check(payload, content[at : at + FOOTER_BYTES], length)
        yield payload
        at += FOOTER_BYTES


def ends(content: bytes) -> Iterator[int]:
    """Yields where each whole record ends that lies in memory, from the first byte on; what is
    behind the last one is the beginning of another. Raises `CorruptRecord`."""
    start, size = HEADER_BYTES, len(content)
    while start <= size:
        stop = start + length_in(content[start - HEADER_BYTES : start])
        end = stop + FOOTER_BYTES
        if end > size:
            return
        # As `check` does; a call more takes as long as all the rest for a short record.
        if _CRC.unpack_from(content, stop)[0] != compute_masked_crc32c(content[start:stop]):
            raise CorruptRecord(_ALTERED)
        yield end
        start = end + HEADER_BYTES


def read(path: str, offset: int = 0, count: int | None = None) -> Iterator[bytes]:
    """Yields payloads from `offset`, which must be the start of a record.

    Every CRC is checked. Raises `DataError` naming the file, the offset and what is wrong;
    TensorFlow's own reader names no file (docs/tensorflow-pitfalls.md#errors-without-a-file-name).
    """
    with storage.open_file(path) as file:
        file.seek(offset)
        done = 0
        while count is None or done < count:
            try:
                payload = _read_one(file)
            except CorruptRecord as broken:
                raise errors.DataError(f"{path!r}: record at byte {offset}: {broken}") from None
            if payload is None:
                return
            yield payload
            offset += HEADER_BYTES + len(payload) + FOOTER_BYTES
            done += 1


def _read_one(file: BinaryIO) -> bytes | None:
    head = file.read(HEADER_BYTES)
    if not head:
        return None
    length = length_in(head)
    payload = file.read(length)
    check(payload, file.read(FOOTER_BYTES), length)
    return payload


# Few lengths occur in one set of records, and each then costs a look-up.
@functools.lru_cache(maxsize=1 << 12)
def length_in(head: bytes) -> int:
    """Returns the length of the payload that a header announces. Raises `CorruptRecord`."""
    if len(head) < HEADER_BYTES:
        raise CorruptRecord("truncated in its header")
    if _CRC.unpack_from(head, 8)[0] != compute_masked_crc32c(head[:8]):
        raise CorruptRecord(
            "the CRC of its length is wrong; altered, packed by ZLIB, or no TFRecord"
        )
    return int(_LENGTH.unpack_from(head)[0])


def check(payload: bytes, footer: bytes, length: int) -> None:
    """Raises `CorruptRecord` if a payload is not the one that was written."""
    if len(payload) < length or len(footer) < FOOTER_BYTES:
        raise CorruptRecord(f"truncated, {length} bytes were promised")
    if _CRC.unpack(footer)[0] != compute_masked_crc32c(payload):
        raise CorruptRecord(_ALTERED)
