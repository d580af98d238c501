"""What every kind of raw data has to offer: files, a plan of chunks, and a way to read one."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pipeline import config

# Raw bytes that are read, encoded and spilled at a time. Large enough to make Python's share
# per row small, small enough that allocators reuse memory instead of asking for fresh pages.
READ_BYTES = 4 << 20
# Raw bytes of one chunk: some reads, so that one can be encoded while another is written.
CHUNK_BYTES = 8 * READ_BYTES


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One file that goes in. `name` goes into the manifest, so it holds no folder of this host."""

    name: str
    path: str


@dataclasses.dataclass(frozen=True)
class Chunk:
    """One piece of work: a part of a split, small enough to be sent to any worker.

    `index` counts the chunks of a split in the order of their rows, `rows` is how many there
    are if that is known before reading, `details` is what the source needs to find them.
    """

    split: str
    index: int
    rows: int | None = None
    details: Any = None


@dataclasses.dataclass(frozen=True)
class Rows:
    """Some consecutive rows of a chunk.

    `batch` has the config's columns with the types of `schema.arrow_schema`. `keys` (binary) name
    rows for ever: split and order depend on them, so they must not depend on how chunks are cut.
    `files` says where each column was read, `first_row` which row of these files is the first.
    """

    keys: pa.BinaryArray
    batch: pa.RecordBatch
    first_row: int = 0
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def where(self, column: str, row: int) -> str:
        """Says for an error where a value came from; `row` counts from 0 within `batch`."""
        return f"{self.files.get(column, 'input')!r}: row {self.first_row + row}"


class Source(abc.ABC):
    """A kind of raw data. Instances are sent to workers, so they hold nothing open.

    All methods raise `DataError` naming the file, what was found and what is allowed.
    """

    def __init__(self, data: config.Data) -> None:
        self.data = data

    @abc.abstractmethod
    def files(self) -> list[RawFile]:
        """Returns every file that is read, in an order that depends on the config alone."""

    @abc.abstractmethod
    def plan(self, split: str) -> list[Chunk]:
        """Cuts a split of `data.inputs` into chunks, always the same way for the same files."""

    @abc.abstractmethod
    def read(self, chunk: Chunk) -> Iterator[Rows]:
        """Yields the rows of a chunk in order, about `READ_BYTES` at a time."""
