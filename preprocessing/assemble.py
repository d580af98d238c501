"""Puts the segments of a shard together into its TFRecord file, in the shard's own order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np
import pyarrow as pa

from pipeline import manifest, storage
from preprocessing import binary, spill
from preprocessing.ahead import ahead

# Bytes merged at a time. It bounds memory whatever the size of the shard: orders are hashes, so
# equal ranges of them hold about equally many records. Larger ones are slower: each then takes
# fresh pages from the system.
WINDOW_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class Window:
    """Records of a shard that follow one another, and the rows left out between them.

    A repeated row is one whose order, and so whose key, an earlier row has, or one in another
    split: its file and number. `columns` are those of the records, if they were spilled.
    """

    records: pa.LargeBinaryArray
    repeated: list[tuple[str, int]]
    columns: pa.StructArray | None


def write_shard(
    path: str,
    name: str,
    segments: list[spill.Segment],
    block_records: int,
    *,
    unique: bool = False,
    by_content: bool = False,
    elsewhere: np.ndarray | None = None,
    seen: Callable[[pa.RecordBatch], None] | None = None,
) -> tuple[manifest.Shard, list[tuple[str, int]]]:
    """Merges `segments` into the file at `path`; `name` is what the manifest calls it.

    Records are in ascending order of their hash; equal ones by origin, which is the order of
    the raw rows, or, if that is another one each time, `by_content`. If they must be `unique`, only
    the first of these is kept, and none that is `elsewhere`, in a split that counts more; hashes
    have 64 bits, so among 10 million keys two different ones agree with probability 3e-6. Columns
    that were spilled are `seen`, of the rows that are kept. Returns counts, the file's CRC-32C and
    the byte offset of each block; and file and number of each row left out.
    """
    checksum = google_crc32c.Checksum()
    blocks: list[int] = []
    count = size = 0
    repeated: list[tuple[str, int]] = []
    with storage.open_file(path, "wb") as file:
        ordered = sorted(segments, key=lambda s: s.origin)
        for window in ahead(_windows(ordered, unique, by_content, elsewhere)):
            data = binary.data(window.records)
            checksum.update(data)
            file.write(data)
            lengths = binary.lengths(window.records).astype(np.int64)
            starts = size + np.cumsum(lengths) - lengths
            # What is kept of a shard grows with its blocks, not with its records.
            blocks += starts[-count % block_records :: block_records].tolist()
            count, size = count + len(lengths), size + len(data)
            repeated += window.repeated
            if seen and window.columns is not None:
                seen(pa.RecordBatch.from_struct_array(window.columns))
    shard = manifest.Shard(
        path=name,
        records=count,
        bytes=size,
        crc32c=checksum.hexdigest().decode(),
        blocks=tuple(blocks),
    )
    return shard, repeated


def _windows(
    segments: list[spill.Segment], unique: bool, by_content: bool, elsewhere: np.ndarray | None
) -> Iterator[Window]:
    """Yields the records of all segments in order, some megabytes at a time."""
    count = -(-sum(s.bytes for s in segments) // WINDOW_BYTES)
    parts = spill.read_all(segments)
    starts = [0] * len(parts)
    for window in range(1, count + 1):
        ends = [_rows_below(part.orders, window, count) for part in parts]
        found = list(map(spill.Rows.slice, parts, starts, ends))
        orders = np.concatenate([part.orders for part in found])
        records = pa.concat_arrays([part.records for part in found])
        # A stable sort: rows of equal order stay in the order of the segments.
        rows = np.argsort(orders, kind="stable")
        if by_content:
            _sort_equal(rows, orders, records)
        repeated: list[tuple[str, int]] = []
        if unique:
            again = np.zeros(len(rows), bool)
            again[1:] = orders[rows[1:]] == orders[rows[:-1]]
            if elsewhere is not None:
                again |= np.isin(orders[rows], elsewhere)
            numbers = [part.numbers for part in found]
            repeated = _rows_at(np.sort(rows[again]), numbers, segments)
            rows = rows[~again]
        kept = pa.array(rows)
        columns = [part.columns for part in found if part.columns is not None]
        taken = pa.concat_arrays(columns).take(kept) if columns else None
        yield Window(records.take(kept), repeated, taken)
        starts = ends
        for part in parts:
            part.release()


def _sort_equal(rows: np.ndarray, orders: np.ndarray, records: pa.LargeBinaryArray) -> None:
    """Puts those of `rows` that have the same order into that of their bytes, in place."""
    bounds = np.flatnonzero(np.diff(orders[rows]))
    runs = zip([0, *(bounds + 1).tolist()], [*(bounds + 1).tolist(), len(rows)], strict=True)
    for start, end in runs:
        if end - start > 1:
            rows[start:end] = sorted(rows[start:end].tolist(), key=lambda r: records[r].as_py())


def _rows_at(
    places: np.ndarray, numbers: list[pa.Int64Array], segments: list[spill.Segment]
) -> list[tuple[str, int]]:
    """Returns file and row number of what lies at `places` of the segments put together."""
    if not len(places):
        return []
    ends = np.cumsum([len(part) for part in numbers])
    everything = pa.concat_arrays(numbers)
    owners = np.searchsorted(ends, places, side="right").tolist()
    found = zip(owners, everything.take(pa.array(places)).to_pylist(), strict=True)
    return [(segments[owner].file, number) for owner, number in found]


def _rows_below(orders: np.ndarray, window: int, count: int) -> int:
    """Returns how many of the ascending `orders` lie in the first `window` of `count` windows."""
    if window == count:
        return len(orders)
    return int(np.searchsorted(orders, np.uint64(window * 2**64 // count)))
