"""TFRecord files of `tf.train.Example`, plain or gz: features are found by the names of columns.

Plain local files are cut into ranges of records, for which only the lengths in them are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
from collections.abc import Iterator
from typing import IO

import numpy as np

from pipeline import errors, storage
from pipeline.config.splits import SplitName
from pipeline.records import tfrecord
from preprocessing.arrow import examples
from preprocessing.sources import base, files


@dataclasses.dataclass(frozen=True)
class TfrecordChunk:
    """`count` records of a file from byte `offset`, or all that follow; `first` come before.

    `bytes` is about how many they take.
    """

    file: base.RawFile
    offset: int = 0
    count: int | None = None
    first: int = 0
    bytes: int | None = None


@dataclasses.dataclass
class PayloadBatch:
    """Payloads of records that follow one another, the number of the first, and why some of them
    cannot be read."""

    first: int
    payloads: list[bytes] = dataclasses.field(default_factory=list)
    bad: dict[int, examples.Problem] = dataclasses.field(default_factory=dict)


class TfrecordSource(base.Source):
    """Records of TFRecord files, counted from 1."""

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in self.find(split)]

    def find(self, split: SplitName) -> list[base.RawFile]:
        """Returns the files of one split."""
        return files.find(self.data, split)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Cuts plain local files into ranges of records."""
        parts = [part for file in self.find(split) for part in _cut_parts(file, self.sizes.chunk)]
        return [base.Chunk(split, i, part.count, part, part.bytes) for i, part in enumerate(parts)]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the features of records; those that cannot be read, or are of another kind than
        the column, are letters."""
        part: TfrecordChunk = chunk.details
        with _open_file(part.file.path) as stream:
            stream.seek(part.offset)
            for block in _read_blocks(stream, part, self.read_bytes):
                yield self._parse_rows(block, part.file)

    def read_payloads(self, chunk: base.Chunk) -> Iterator[bytes]:
        """Yields the payloads of records as they are."""
        part: TfrecordChunk = chunk.details
        with _open_file(part.file.path) as stream:
            stream.seek(part.offset)
            for block in _read_blocks(stream, part, self.read_bytes):
                yield from block.payloads

    def _parse_rows(self, block: PayloadBatch, file: base.RawFile) -> base.Rows:
        for row, payload in enumerate(block.payloads):
            if row not in block.bad and examples.is_sequence(payload):
                number = block.first + row + 1
                raise errors.DataError(f"{file.path!r}: record {number} {examples.SEQUENCE}")
        batch, bad = examples.parse_columns(
            block.payloads, self.data.columns, block.bad, exact=bool(self.data.in_place)
        )
        numbers = np.arange(block.first, block.first + len(block.payloads))
        letters = [
            base.Letter(file.path, block.first + row + 1, column, reason, value, problem)
            for row, (column, reason, value, problem) in sorted(bad.items())
        ]
        numbers = np.delete(numbers, sorted(bad))
        return base.Rows(
            batch,
            files=dict.fromkeys(self.data.columns, file.path),
            numbers=numbers + 1,
            letters=tuple(letters),
            name=file.name,
        )


def _cut_parts(file: base.RawFile, most: int) -> Iterator[TfrecordChunk]:
    """Cuts a plain local file into parts of about `most` bytes, by the lengths in it. Raises
    `DataError` where it is damaged."""
    with _open_file(file.path) as stream:
        if not isinstance(stream, mmap.mmap):
            yield TfrecordChunk(file, bytes=files.estimate_unpacked_size(file.path))
            return
        first = number = offset = start = 0
        size = len(stream)
        while offset < size:
            with _locate_errors(file.path, number, offset):
                length = tfrecord.length_in(stream[offset : offset + tfrecord.HEADER_BYTES])
                end = offset + tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES
                if end > size:
                    raise tfrecord.CorruptRecord(f"truncated, {length} bytes were promised")
            offset, number = end, number + 1
            if offset - start >= most:
                yield TfrecordChunk(file, start, number - first, first, offset - start)
                start, first = offset, number
        if number > first:
            yield TfrecordChunk(file, start, number - first, first, offset - start)


def _read_blocks(
    stream: IO[bytes] | mmap.mmap, part: TfrecordChunk, most: int
) -> Iterator[PayloadBatch]:
    block, size, number, offset = PayloadBatch(part.first), 0, part.first, part.offset
    while part.count is None or number < part.first + part.count:
        with _locate_errors(part.file.path, number, offset):
            head = stream.read(tfrecord.HEADER_BYTES)
            if not head:
                break
            length = tfrecord.length_in(head)
            payload, footer = stream.read(length), stream.read(tfrecord.FOOTER_BYTES)
            if len(payload) < length or len(footer) < tfrecord.FOOTER_BYTES:
                raise tfrecord.CorruptRecord(f"truncated, {length} bytes were promised")
        try:
            tfrecord.check(payload, footer, length)
        except tfrecord.CorruptRecord:
            why = (None, "checksum", None, "was altered: the CRC of its payload is wrong")
            block.bad[len(block.payloads)] = why
        block.payloads.append(payload)
        offset, number = offset + len(head) + length + len(footer), number + 1
        size += length
        if size >= most:
            yield block
            block, size = PayloadBatch(number), 0
    if block.payloads:
        yield block


@contextlib.contextmanager
def _locate_errors(path: str, number: int, offset: int) -> Iterator[None]:
    try:
        yield
    except tfrecord.CorruptRecord as broken:
        raise errors.DataError(
            f"{path!r}: record {number + 1}, at byte {offset}: {broken}"
        ) from None


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[IO[bytes] | mmap.mmap]:
    """Opens a file of records, mapped if it is plain and local. An empty one holds none.

    What it begins with does not decide: a length may look like gzip's magic.
    """
    with files.translate_errors(path), storage.open_file(path) as raw:
        head = raw.read(tfrecord.HEADER_BYTES)
        raw.seek(0)
        try:
            tfrecord.length_in(head)
        except tfrecord.CorruptRecord:
            with files.unpack(raw, path) as stream:
                yield stream
            return
        if storage.is_remote(path):
            yield raw
            return
        with mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped
