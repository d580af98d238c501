"""The TFRecord file format, as TensorFlow's `core/lib/io/record_writer.h` has it.

A record is its length (8 bytes), the masked CRC-32C of these (4 bytes), the payload, and the
masked CRC-32C of the payload (4 bytes); numbers are little-endian. Nothing here needs TensorFlow.
"""

from __future__ import annotations

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


def masked_crc32c(data: bytes) -> int:
    """Returns the CRC-32C of `data`, masked so that a file of CRCs does not checksum to itself."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """Returns the 12 bytes in front of a payload of `length` bytes."""
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(masked_crc32c(packed))


def frame(payload: bytes) -> bytes:
    """Returns one whole record."""
    return header(len(payload)) + payload + _CRC.pack(masked_crc32c(payload))


def read(path: str, offset: int = 0, count: int | None = None) -> Iterator[bytes]:
    """Yields payloads from `offset`, which must be the start of a record.

    Every CRC is checked. Raises `DataError` naming the file, the offset and what is wrong;
    TensorFlow's own reader names no file (traps C1).
    """
    with storage.open_file(path) as file:
        file.seek(offset)
        done = 0
        while count is None or done < count:
            payload = _read_one(file, path, offset)
            if payload is None:
                return
            yield payload
            offset += HEADER_BYTES + len(payload) + FOOTER_BYTES
            done += 1


def _read_one(file: BinaryIO, path: str, offset: int) -> bytes | None:
    head = file.read(HEADER_BYTES)
    if not head:
        return None
    where = f"{path!r}: record at byte {offset}"
    if len(head) < HEADER_BYTES:
        raise errors.DataError(f"{where}: truncated in its header")
    if _CRC.unpack_from(head, 8)[0] != masked_crc32c(head[:8]):
        raise errors.DataError(f"{where}: the CRC of its length is wrong; altered, or no TFRecord")
    length = _LENGTH.unpack_from(head)[0]
    payload = file.read(length)
    footer = file.read(FOOTER_BYTES)
    if len(payload) < length or len(footer) < FOOTER_BYTES:
        raise errors.DataError(f"{where}: truncated, {length} bytes were promised")
    if _CRC.unpack(footer)[0] != masked_crc32c(payload):
        raise errors.DataError(f"{where}: the CRC of its payload is wrong; it was altered")
    return payload
