"""Encoded rows on their way from the chunk they were read in to the shard they belong to.

They go through files and not through Beam: FnApiRunner keeps what flows between two stages in
memory, so only small `Segment`s that point into the files are sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline import storage
from pipeline.splits import SPLITS
from preprocessing import binary
from preprocessing.order import Places

_SCHEMA = pa.schema([("order", pa.uint64()), ("record", pa.large_binary()), ("number", pa.int64())])
# Rows in a file stand in its name, so that progress can be seen by listing the folder.
_NAME = re.compile(r"^(?P<split>[a-z]+)-\d+-\d+\.rows(?P<rows>\d+)\.arrow$")


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
    """

    places: Places
    framed: pa.LargeBinaryArray
    file: str = ""
    numbers: np.ndarray | None = None


def write(
    folder: str, split: str, origin: tuple[int, int], encoded: Encoded
) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Writes framed records to one file; yields (split, shard) and the segment for each shard."""
    places, framed, numbers = encoded.places, encoded.framed, encoded.numbers
    if not len(framed):
        return
    chunk, part = origin
    path = storage.join(folder, f"{split}-{chunk:06d}-{part:04d}.rows{len(framed)}.arrow")
    rows = np.lexsort((places.order, places.shard, places.split))
    group = places.split[rows].astype(np.int64) << 32 | places.shard[rows]
    ends = [*(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
    order, framed = pa.array(places.order[rows]), framed.take(pa.array(rows))
    number = pa.nulls(len(rows), pa.int64()) if numbers is None else pa.array(numbers[rows])
    with storage.open_file(path, "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        start = 0
        for batch, end in enumerate(ends):
            cut = [column.slice(start, end - start) for column in (order, framed, number)]
            writer.write_batch(pa.record_batch(cut, _SCHEMA))
            split_index, shard = divmod(int(group[start]), 1 << 32)
            size = int(binary.lengths(cut[1]).sum())
            segment = Segment(path, batch, origin, end - start, size, encoded.file)
            yield (SPLITS[split_index], shard), segment
            start = end


@contextlib.contextmanager
def read(segment: Segment) -> Iterator[tuple[np.ndarray, pa.LargeBinaryArray, pa.Int64Array]]:
    """Gives orders, records and row numbers of a segment, mapped from its file if that is local."""
    remote = storage.is_remote(segment.path)
    file = storage.open_file(segment.path) if remote else pa.memory_map(segment.path)
    with file:
        batch = pa.ipc.open_file(file).get_batch(segment.batch)
        yield batch.column(0).to_numpy(), batch.column(1), batch.column(2)


def rows_written(folder: str) -> int:
    """Returns how many rows the spill files in `folder` hold or are about to."""
    found = (_NAME.match(name) for name in storage.listdir(folder))
    return sum(int(match["rows"]) for match in found if match)
