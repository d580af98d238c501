"""Encoded rows on their way from the chunk they were read in to the shard they belong to.

They go through files and not through Beam: FnApiRunner keeps what flows between two stages in
memory, so only small `Segment`s that point into the files are sent.
"""

from __future__ import annotations

import dataclasses
import mmap
import re
import resource
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline import storage
from pipeline.splits import SPLITS
from preprocessing import binary
from preprocessing.order import Places

_FIELDS = [("order", pa.uint64()), ("record", pa.large_binary()), ("number", pa.int64())]
# Rows in a file stand in its name, so that progress can be seen by listing the folder.
_NAME = re.compile(r"^(?P<split>[a-z]+)-\d+-\d+\.rows(?P<rows>\d+)\.arrow$")
# Files that a process has open besides.
_OTHER_FILES = 1024


@dataclasses.dataclass(frozen=True)
class Segment:
    """Rows of one shard in one spill file: record batch `batch`, in ascending `order`.

    `origin` (chunk, part) decides between rows of equal order. `file` is where the rows are from.
    """

    path: str
    batch: int
    origin: tuple[int, int]
    records: int
    bytes: int
    file: str


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Framed records, where each goes, and which row of `file` each was.

    `numbers` is `None` if nobody will ask, because rows have no key that could be there twice.
    `columns` are what was encoded, if statistics are still to be made of them.
    """

    places: Places
    framed: pa.LargeBinaryArray
    file: str = ""
    numbers: np.ndarray | None = None
    columns: pa.RecordBatch | None = None


@dataclasses.dataclass(frozen=True)
class Rows:
    """What a segment holds, a value each a row; `columns` if they were spilled.

    `mapped` is the file they lie in, if that is local.
    """

    orders: np.ndarray
    records: pa.LargeBinaryArray
    numbers: pa.Int64Array
    columns: pa.StructArray | None = None
    mapped: mmap.mmap | None = None

    def release(self) -> None:
        """Gives memory back until rows are looked at again; else it has all of them in the end."""
        if self.mapped is not None:
            self.mapped.madvise(mmap.MADV_DONTNEED)

    def slice(self, start: int, end: int) -> Rows:
        """Returns the rows from `start` to before `end`."""
        columns = None if self.columns is None else self.columns.slice(start, end - start)
        records = self.records.slice(start, end - start)
        return Rows(
            self.orders[start:end], records, self.numbers.slice(start, end - start), columns
        )


def write(
    folder: str, split: str, origin: tuple[int, int], encoded: Encoded
) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Writes framed records to one file; yields (split, shard) and the segment for each shard."""
    places, framed = encoded.places, encoded.framed
    if not len(framed):
        return
    chunk, part = origin
    path = storage.join(folder, f"{split}-{chunk:06d}-{part:04d}.rows{len(framed)}.arrow")
    rows = np.lexsort((places.order, places.shard, places.split))
    group = places.split[rows].astype(np.int64) << 32 | places.shard[rows]
    ends = [*(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
    everything = _table(encoded, rows)
    with storage.open_file(path, "wb") as file, pa.ipc.new_file(file, everything.schema) as writer:
        start = 0
        for batch, end in enumerate(ends):
            cut = everything.slice(start, end - start)
            writer.write_batch(cut)
            split_index, shard = divmod(int(group[start]), 1 << 32)
            size = int(binary.lengths(cut.column("record")).sum())
            segment = Segment(path, batch, origin, end - start, size, encoded.file)
            yield (SPLITS[split_index], shard), segment
            start = end


def _table(encoded: Encoded, rows: np.ndarray) -> pa.RecordBatch:
    """Returns all that is spilled of `rows`, in this order."""
    numbers, taken = encoded.numbers, pa.array(rows)
    number = pa.nulls(len(rows), pa.int64()) if numbers is None else pa.array(numbers[rows])
    arrays = [pa.array(encoded.places.order[rows]), encoded.framed.take(taken), number]
    if encoded.columns is None:
        return pa.record_batch(arrays, pa.schema(_FIELDS))
    columns = encoded.columns.take(taken).to_struct_array()
    return pa.record_batch([*arrays, columns], pa.schema([*_FIELDS, ("columns", columns.type)]))


def read_all(segments: Sequence[Segment]) -> list[Rows]:
    """Returns the rows of each segment. Every one keeps its file open, so the system is asked to
    let this process have more of them if it must."""
    wanted = len(segments) + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return [read(segment) for segment in segments]


def read(segment: Segment) -> Rows:
    """Returns the rows of a segment, mapped from its file if that is local."""
    with storage.open_file(segment.path) as file:
        mapped = None
        if not storage.is_remote(segment.path):
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        source = file if mapped is None else pa.py_buffer(mapped)
        batch = pa.ipc.open_file(source).get_batch(segment.batch)
    columns = batch.column(3) if batch.num_columns > 3 else None
    orders, records, numbers = batch.columns[:3]
    return Rows(orders.to_numpy(), records, numbers, columns, mapped)


def rows_written(folder: str) -> int:
    """Returns how many rows the spill files in `folder` hold or are about to."""
    found = (_NAME.match(name) for name in storage.listdir(folder))
    return sum(int(match["rows"]) for match in found if match)
