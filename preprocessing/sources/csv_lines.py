"""Cuts text into blocks of whole rows, where a row may hold newlines between quotes.

A row ends with \\n, \\r\\n or \\r, as for pyarrow, and empty rows do not count. Blocks without a
quote are cut at memory speed; those with quotes by vectorised parity; only where a quote stands
in the middle of an unquoted value, which parity cannot tell apart, byte by byte.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from pipeline import errors

# A row longer than this is taken for one in which a quote was never closed.
MAX_ROW_BYTES = 16 << 20
# Bytes that are looked through at a time where only the ends of rows are wanted: such a piece stays
# in the processor's cache. At least so many of them make a range.
_SCANNED_BYTES, _PIECES = 1 << 20, 8
_LF, _CR = 0x0A, 0x0D


class Readable(Protocol):
    """What can be read from its start to its end."""

    def read(self, size: int, /) -> bytes:
        """Returns up to `size` bytes, none at the end."""


class Limited:
    """The next `length` bytes of a stream."""

    def __init__(self, stream: Readable, length: int) -> None:
        self._stream, self._left = stream, length

    def read(self, size: int, /) -> bytes:
        """Reads up to `size` bytes."""
        found = self._stream.read(min(size, self._left))
        self._left -= len(found)
        return found


@dataclasses.dataclass(frozen=True)
class RawRows:
    """Whole rows: their bytes, how many there are, and the offset of the block in its file."""

    data: bytes
    rows: int
    offset: int


def read_blocks(
    file: Readable,
    size: int,
    path: str,
    *,
    quote: str = "",
    delimiter: str = ",",
    trim: bool = False,
) -> Iterator[RawRows]:
    """Yields blocks of about `size` bytes, from where `file` stands to its end.

    Without a `quote` every newline ends a row; with `trim` one may follow spaces. Raises
    `DataError` naming `path` and the row, counted from 1, for one longer than `MAX_ROW_BYTES` and
    for a quote never closed.
    """
    carry, offset, rows = b"", 0, 0
    while fresh := file.read(size):
        data = carry + fresh
        ends = find_row_ends(data, quote, delimiter, trim=trim)
        last = int(ends[-1]) if len(ends) else 0
        carry = data[last:]
        if len(carry) > MAX_ROW_BYTES:
            raise errors.DataError(
                f"{path!r}: row {rows + count(data, ends) + 1} is longer than "
                f"{MAX_ROW_BYTES >> 20} MiB; is a quote never closed?"
            )
        if last:
            block = RawRows(data[:last], count(data, ends), offset)
            offset, rows = offset + last, rows + block.rows
            yield block
    if carry:
        # A newline of our own ends the last row, unless it would stand between quotes.
        ends = find_row_ends(carry + b"\n", quote, delimiter, trim=trim)
        if not len(ends) or ends[-1] <= len(carry):
            raise errors.DataError(f"{path!r}: row {rows + 1}: a quote is opened and never closed")
        yield RawRows(carry, count(carry + b"\n", ends), offset)


@dataclasses.dataclass(frozen=True)
class RowSpan:
    """Where whole rows lie in a file: offset, bytes, and how many rows there are."""

    offset: int
    length: int
    rows: int


def find_ranges(file: Readable, size: int, path: str, **rules: Any) -> Iterator[RowSpan]:
    """Yields ranges that end with a row, not far behind each multiple of `size` bytes. They begin
    where `file` stands, with offset 0; `rules` and errors are those of `read_blocks`."""
    start, length, rows = 0, 0, 0
    scanned = min(max(1, size // _PIECES), _SCANNED_BYTES)
    for block in read_blocks(file, scanned, path, **rules):
        length, rows = length + len(block.data), rows + block.rows
        if (start + length) // size > start // size:
            yield RowSpan(start, length, rows)
            start, length, rows = start + length, 0, 0
    if length:
        yield RowSpan(start, length, rows)


def find_row_ends(data: bytes, quote: str, delimiter: str, *, trim: bool = False) -> np.ndarray:
    """Returns the offset behind each row of `data`, which begins with a row.

    With `trim`, a quote after spaces opens too. A \\r at the very end is no end yet: a \\n may
    follow.
    """
    values = np.frombuffer(data, np.uint8)
    breaks = values == _LF
    if b"\r" in data:
        breaks[:-1] |= (values[:-1] == _CR) & (values[1:] != _LF)
    ends = np.flatnonzero(breaks) + 1
    if not quote or quote.encode() not in data:
        return ends
    quotes = np.flatnonzero(values == ord(quote))
    opening = quotes[::2]
    before = values[opening[opening > 0] - 1]
    # What may stand in front: a value's start, or the first of two quotes that mean one.
    if not np.isin(before, (ord(delimiter), _LF, _CR, ord(quote))).all():
        return _walk(
            data, quote=quote.encode(), delimiter=delimiter.encode(), spaces=b" " if trim else b""
        )
    return ends[np.searchsorted(quotes, ends) % 2 == 0]


def count(data: bytes, ends: np.ndarray) -> int:
    """Returns how many of the rows that end at `ends` are not empty."""
    if not len(ends):
        return 0
    lengths = np.diff(ends, prepend=0)
    return len(ends) - int((lengths == 1).sum()) - _count_empty_with_return(data, ends, lengths)


def _count_empty_with_return(data: bytes, ends: np.ndarray, lengths: np.ndarray) -> int:
    starts = (ends - 2)[lengths == 2]
    return sum(data[start : start + 2] == b"\r\n" for start in starts.tolist())


def drop_rows(data: bytes, ends: np.ndarray, numbers: list[int]) -> bytes:
    """Returns `data` without its rows `numbers`, counted from 0 over rows that are not empty."""
    gone, kept, start, number = set(numbers), [], 0, 0
    for end in [*ends.tolist(), len(data)]:
        row, start = data[start:end], end
        if not row.strip(b"\r\n"):
            continue
        if number not in gone:
            kept.append(row)
        number += 1
    return b"".join(kept)


def trim_values(data: bytes, quote: str, delimiter: str) -> bytes:
    """Returns whole rows without spaces around their values, but those between quotes.

    A row that is nothing but spaces stays, and so stays a row.
    """
    mark, cut = re.escape(quote.encode()), re.escape(delimiter.encode())
    between = b"(" + mark + b"(?:[^" + mark + b"]|" + mark * 2 + b")*" + mark + b")?"
    before = b"((?:^|[\r\n])(?= *[^ \r\n])|" + cut + b") *" + (between if quote else b"()")
    behind = b"(?<=[^ \r\n]) +(?=" + cut + b"|[\r\n]|$)"
    return re.sub(before + b"|" + behind, rb"\1\2", data)


def _walk(data: bytes, *, quote: bytes, delimiter: bytes, spaces: bytes) -> np.ndarray:
    """Does the same as pyarrow's parser does it: a quote opens only where a value begins, or after
    `spaces` there."""
    ends, begin, closed, inside = [], 0, -1, False
    for match in re.finditer(b"[\n\r" + re.escape(quote + delimiter) + b"]", data):
        at, byte = match.start(), match[0]
        if byte == quote:
            if inside:
                inside, closed = False, at
            elif at in (begin, closed + 1) or (spaces and not data[begin:at].strip(spaces)):
                inside = True
        elif inside:
            continue
        elif byte == delimiter:
            begin = at + 1
        elif byte == b"\n" or (at + 1 < len(data) and data[at + 1] != _LF):
            ends.append(at + 1)
            begin = at + 1
    return np.array(ends, np.int64)
