"""Small chunks as one, so that what a chunk costs is not paid for each of thousands of small files.

A batch then has rows of several files, one after the other, in the order of the files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.config.splits import SplitName
from preprocessing.sources import base


def wrap(source: base.Source) -> base.Source:
    """Returns `source` with its small chunks put together, unless it is a transform, which has
    none."""
    return Together(source) if source.numbered else source


class Together(base.Source):
    """A source whose small chunks are put together. The rows and their order stay the same."""

    def __init__(self, source: base.Source) -> None:
        super().__init__(source.data)
        self.sizes = source.sizes
        self._source = source

    def files(self) -> list[base.RawFile]:
        """Returns the files of the source."""
        return self._source.files()

    def read_names(self, file: base.RawFile) -> tuple[str, ...] | None:
        """Returns the columns that a file says it has."""
        return self._source.read_names(file)

    @property
    def remarks(self) -> list[str]:
        """Returns those of the source."""
        return self._source.remarks

    def hash_changes(self) -> str:
        """Returns what the source does."""
        return self._source.hash_changes()

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Puts chunks that follow one another together, up to `read_bytes`."""
        groups: list[list[base.Chunk]] = []
        size = 0
        for chunk in self._source.plan(split):
            length = self.read_bytes if chunk.bytes is None else chunk.bytes
            if not groups or size + length > self.read_bytes:
                groups.append([])
                size = 0
            groups[-1].append(chunk)
            size += length
        return [
            base.Chunk(split, index, _count_rows(group), tuple(group))
            for index, group in enumerate(groups)
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of all chunks that this one stands for, joined where they can be."""
        if len(chunk.details) == 1:
            yield from self._source.read(chunk.details[0])
            return
        waiting: list[base.Rows] = []
        size = 0
        for rows in (rows for one in chunk.details for rows in self._source.read(one)):
            if waiting and not (_can_join(rows) and _can_join(waiting[0], rows)):
                yield _join(waiting)
                waiting, size = [], 0
            waiting.append(rows)
            size += rows.batch.nbytes
            if size >= self.read_bytes:
                yield _join(waiting)
                waiting, size = [], 0
        if waiting:
            yield _join(waiting)


def _count_rows(chunks: list[base.Chunk]) -> int | None:
    """Returns how many rows chunks have, if every one says it."""
    known = [chunk.rows for chunk in chunks if chunk.rows is not None]
    return sum(known) if len(known) == len(chunks) else None


def _can_join(rows: base.Rows, other: base.Rows | None = None) -> bool:
    """Tells if rows are all of one file, and of the types that `other` ones have."""
    if other is not None and not rows.batch.schema.equals(other.batch.schema):
        return False
    return not rows.each and not rows.stretches and len(set(rows.files.values())) == 1


def _join(parts: list[base.Rows]) -> base.Rows:
    """Returns the rows of all parts, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    counts = [part.batch.num_rows for part in parts]
    starts = np.cumsum(counts) - counts
    table = pa.Table.from_batches([part.batch for part in parts]).combine_chunks()
    batches = table.to_batches() or [parts[0].batch]
    stretches = [
        base.Stretch(start, base.RawFile(part.name, next(iter(part.files.values()))))
        for start, part in zip(starts.tolist(), parts, strict=True)
    ]
    return dataclasses.replace(
        parts[0],
        batch=batches[0],
        numbers=np.concatenate([part.list_numbers() for part in parts]),
        letters=tuple(letter for part in parts for letter in part.letters),
        stretches=tuple(stretches),
    )
