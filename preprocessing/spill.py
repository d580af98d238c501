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
from preprocessing import binary
from preprocessing.order import SPLITS, Places

_SCHEMA = pa.schema([("order", pa.uint64()), ("record", pa.large_binary())])
# Rows in a file stand in its name, so that progress can be seen by listing the folder.
_NAME = re.compile(r"^(?P<split>[a-z]+)-\d+-\d+\.rows(?P<rows>\d+)\.arrow$")


@dataclasses.dataclass(frozen=True)
class Segment:
    """Rows of one shard in one spill file: record batch `batch`, in ascending `order`.

    `origin` (chunk, part) decides between rows of equal order.
    """

    path: str
    batch: int
    origin: tuple[int, int]
    records: int
    bytes: int


def write(
    folder: str, split: str, origin: tuple[int, int], places: Places, framed: pa.LargeBinaryArray
) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Writes framed records to one file; yields (split, shard) and the segment for each shard."""
    chunk, part = origin
    path = storage.join(folder, f"{split}-{chunk:06d}-{part:04d}.rows{len(framed)}.arrow")
    rows = np.lexsort((places.order, places.shard, places.split))
    group = places.split[rows].astype(np.int64) << 32 | places.shard[rows]
    ends = [*(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
    order, framed = pa.array(places.order[rows]), framed.take(pa.array(rows))
    with storage.open_file(path, "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        start = 0
        for batch, end in enumerate(ends):
            record = framed.slice(start, end - start)
            writer.write_batch(pa.record_batch([order.slice(start, end - start), record], _SCHEMA))
            split_index, shard = divmod(int(group[start]), 1 << 32)
            segment = Segment(path, batch, origin, end - start, int(binary.lengths(record).sum()))
            yield (SPLITS[split_index], shard), segment
            start = end


@contextlib.contextmanager
def read(segment: Segment) -> Iterator[tuple[np.ndarray, pa.LargeBinaryArray]]:
    """Gives the orders and the records of a segment, mapped from the file where it is local."""
    remote = storage.is_remote(segment.path)
    file = storage.open_file(segment.path) if remote else pa.memory_map(segment.path)
    with file:
        batch = pa.ipc.open_file(file).get_batch(segment.batch)
        yield batch.column(0).to_numpy(), batch.column(1)


def rows_written(folder: str) -> int:
    """Returns how many rows the spill files in `folder` hold or are about to."""
    found = (_NAME.match(name) for name in storage.listdir(folder))
    return sum(int(match["rows"]) for match in found if match)
