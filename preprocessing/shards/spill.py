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
import pyarrow.compute as pc

from pipeline import storage
from pipeline.config.splits import SPLITS
from preprocessing.arrow import binary
from preprocessing.rows.placement import RowPlacement
from preprocessing.shards import summed

# Rows in a file stand in its name, so that progress can be seen by listing the folder.
_NAME = re.compile(r"^(?P<split>[a-z]+)-\d+-\d+\.rows(?P<rows>\d+)\.arrow$")
# Files that a process has open besides.
_OTHER_FILES = 1024


@dataclasses.dataclass(frozen=True)
class Segment:
    """Rows of one shard in one spill file: record batch `batch`, in ascending `order`.

    `origin` (chunk, part) decides between rows of equal order. `file` is where the rows are from.
    `copies` are rows that another one is equal to: see `preprocessing.build.copies`.
    """

    path: str
    batch: int
    origin: tuple[int, int]
    records: int
    bytes: int
    file: str
    copies: bool = False


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Framed records, where each goes, and which row of `file` each was.

    `numbers` is `None` if it is not needed, because rows have no key that could be there twice.
    `contents` are hashes of what is in rows, which decide where rows without a key go.
    `columns` are what was encoded, if statistics are still to be made of them. `files` has the file
    of each row where there are several.
    """

    places: RowPlacement
    framed: pa.LargeBinaryArray
    file: str = ""
    numbers: np.ndarray | None = None
    columns: pa.RecordBatch | None = None
    contents: np.ndarray | None = None
    files: pa.DictionaryArray | None = None


@dataclasses.dataclass(frozen=True)
class SegmentRows:
    """What a segment holds, a value each a row.

    `fields` are those of the file: `order`, `record`, and whichever of `number`, `file`, `content`,
    `count` (of equal rows that lie there once) and `columns` were spilled. `mapped` is the file
    they lie in, if that is local.
    """

    fields: pa.RecordBatch
    mapped: mmap.mmap | None = None

    @property
    def orders(self) -> np.ndarray:
        """Ascending."""
        return self.fields.column("order").to_numpy()

    @property
    def records(self) -> pa.LargeBinaryArray:
        """As they go into the shard."""
        return self.fields.column("record")

    @property
    def is_counted(self) -> bool:
        """Tells if a row may stand for several."""
        return "count" in self.fields.schema.names

    @property
    def counts(self) -> np.ndarray:
        """How many equal rows each stands for."""
        if not self.is_counted:
            return np.ones(self.fields.num_rows, np.int64)
        return self.fields.column("count").to_numpy()

    def count_below(self, window: int, count: int) -> int:
        """Returns how many rows have an order in the first `window` of `count` equal ranges."""
        if window == count:
            return self.fields.num_rows
        return int(np.searchsorted(self.orders, np.uint64(window * 2**64 // count)))

    def find_field(self, name: str) -> pa.Array | None:
        """Returns a field that may not have been spilled."""
        return self.fields.column(name) if name in self.fields.schema.names else None

    def release(self) -> None:
        """Gives memory back until rows are looked at again; else it has all of them in the end."""
        if self.mapped is not None:
            self.mapped.madvise(mmap.MADV_DONTNEED)

    def slice(self, start: int, end: int) -> SegmentRows:
        """Returns the rows from `start` to before `end`."""
        return SegmentRows(self.fields.slice(start, end - start))


def write(
    folder: str,
    split: str,
    origin: tuple[int, int],
    *,
    encoded: Encoded,
    sums: summed.Sums | None = None,
) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Writes framed records to one file; yields (split, shard) and the segment for each shard.
    Notes in `sums` what the file is when all are yielded."""
    if len(encoded.framed):
        chunk, part = origin
        name = f"{split}-{chunk:06d}-{part:04d}.rows{len(encoded.framed)}.arrow"
        yield from write_file(storage.join(folder, name), origin, encoded, sums=sums)


def write_file(
    path: str,
    origin: tuple[int, int],
    encoded: Encoded,
    *,
    copies: bool = False,
    sums: summed.Sums | None = None,
) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Writes framed records, of which there are some, to the file at `path`. Yields as `write`."""
    places = encoded.places
    rows = np.lexsort((places.order, places.shard, places.split))
    counts = None if copies or encoded.contents is None else _count_repeats(encoded, rows)
    if counts is not None:
        rows, counts = rows[counts > 0], counts[counts > 0]
    group = places.split[rows].astype(np.int64) << 32 | places.shard[rows]
    ends = [*(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
    everything = _build_table(encoded, rows, counts)
    with summed.create(path, sums) as file, pa.ipc.new_file(file, everything.schema) as writer:
        start = 0
        for batch, end in enumerate(ends):
            cut = everything.slice(start, end - start)
            writer.write_batch(cut)
            split_index, shard = divmod(int(group[start]), 1 << 32)
            size = int(binary.compute_lengths(cut.column("record")).sum())
            segment = Segment(path, batch, origin, end - start, size, encoded.file, copies)
            yield (SPLITS[split_index], shard), segment
            start = end


def _count_repeats(encoded: Encoded, rows: np.ndarray) -> np.ndarray | None:
    """Returns how many of the sorted `rows` each stands for: of equal ones that follow one another
    the first for all, the others for none. `None` if there are no such."""
    orders = encoded.places.order[rows]
    same = np.flatnonzero(orders[1:] == orders[:-1])
    if not len(same):
        return None
    before, after = (encoded.framed.take(pa.array(rows[at])) for at in (same, same + 1))
    equal = pc.equal(before, after).to_numpy(zero_copy_only=False)
    starts = np.ones(len(rows), bool)
    starts[same[equal] + 1] = False
    counts = np.zeros(len(rows), np.int64)
    counts[starts] = np.diff(np.flatnonzero(starts), append=len(rows))
    return counts


def _build_table(encoded: Encoded, rows: np.ndarray, counts: np.ndarray | None) -> pa.RecordBatch:
    """Returns all that is spilled of `rows`, in this order."""
    taken = pa.array(rows)
    fields = {"order": pa.array(encoded.places.order[rows]), "record": encoded.framed.take(taken)}
    for name, values in (("number", encoded.numbers), ("content", encoded.contents)):
        if values is not None:
            fields[name] = pa.array(values[rows])
    if encoded.files is not None:
        fields["file"] = encoded.files.take(taken)
    if counts is not None:
        fields["count"] = pa.array(counts)
    if encoded.columns is not None:
        fields["columns"] = encoded.columns.take(taken).to_struct_array()
    return pa.record_batch(fields)


def read_all(segments: Sequence[Segment]) -> list[SegmentRows]:
    """Returns the rows of each segment. Every one keeps its file open, so the system is asked to
    let this process have more of them if it must."""
    wanted = len(segments) + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return [read(segment) for segment in segments]


def read(segment: Segment) -> SegmentRows:
    """Returns the rows of a segment, mapped from its file if that is local."""
    with storage.open_file(segment.path) as file:
        mapped = None
        if not storage.is_remote(segment.path):
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        source = file if mapped is None else pa.py_buffer(mapped)
        batch = pa.ipc.open_file(source).get_batch(segment.batch)
    return SegmentRows(batch, mapped)


def count_rows_written(folder: str) -> int:
    """Returns how many rows the spill files in `folder` hold or are about to."""
    found = (_NAME.match(name) for name in storage.listdir(folder))
    return sum(int(match["rows"]) for match in found if match)
