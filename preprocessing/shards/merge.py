"""Puts the segments of a shard together into its TFRecord file, in the shard's own order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import storage
from pipeline.records import manifest
from preprocessing.arrow import binary
from preprocessing.shards import spill
from preprocessing.shards.prefetch import prefetch

# Bytes merged at a time. It bounds memory whatever the size of the shard: orders are hashes, so
# equal ranges of them hold about equally many records. Larger ones are slower: each then takes
# fresh pages from the system.
WINDOW_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class MergedRecords:
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
    *,
    block_records: int,
    unique: bool = False,
    by_content: bool = False,
    elsewhere: np.ndarray | None = None,
    seen: Callable[[pa.RecordBatch], None] | None = None,
    window_bytes: int = WINDOW_BYTES,
) -> tuple[manifest.Shard, list[tuple[str, int]]]:
    """Merges `segments` into the file at `path`; `name` is what the manifest calls it.

    Records are in ascending order of their hash; equal ones by origin, which is the order of
    the raw rows, or, if that is another one each time, `by_content`. If they must be `unique`, only
    the first of these is kept, and none that is `elsewhere`, in a split that counts more; hashes
    have 64 bits, so among 10 million keys two different ones agree with probability 3e-6. Of rows
    without a key, too, only the first of equal order is kept; the others are in the segments of
    `copies`, all of which are. Columns that were spilled are `seen`, of the rows that are kept.
    `window_bytes` are merged at a time.

    Returns counts, the file's CRC-32C and the byte offset of each block; and file and number of
    each row left out because it must be `unique`.
    """
    checksum = google_crc32c.Checksum()
    blocks: list[int] = []
    count = size = 0
    repeated: list[tuple[str, int]] = []
    with storage.open_file(path, "wb") as file:
        ordered = sorted(segments, key=lambda s: s.origin)
        windows = _merge_windows(
            ordered,
            -(-sum(s.bytes for s in segments) // window_bytes),
            unique=unique,
            by_content=by_content,
            elsewhere=elsewhere,
        )
        for window in prefetch(windows):
            data = binary.view_data(window.records)
            checksum.update(data)
            file.write(data)
            lengths = binary.compute_lengths(window.records).astype(np.int64)
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


def _merge_windows(
    segments: list[spill.Segment],
    count: int,
    *,
    unique: bool,
    by_content: bool,
    elsewhere: np.ndarray | None,
) -> Iterator[MergedRecords]:
    """Yields the records of all segments in order, in `count` parts."""
    parts = spill.read_all(segments)
    starts = [0] * len(parts)
    for window in range(1, count + 1):
        ends = [part.count_below(window, count) for part in parts]
        found = list(map(spill.SegmentRows.slice, parts, starts, ends))
        orders = np.concatenate([part.orders for part in found])
        records = pa.concat_arrays([part.records for part in found])
        # A stable sort: rows of equal order stay in the order of the segments.
        rows = np.argsort(orders, kind="stable")
        if by_content:
            _sort_equal(rows, orders, records)
        repeated: list[tuple[str, int]] = []
        if not unique:
            copies = np.repeat([s.copies for s in segments], [len(part.orders) for part in found])
            rows = _drop_repeated(rows, orders, copies)
        else:
            again = np.zeros(len(rows), bool)
            again[1:] = orders[rows[1:]] == orders[rows[:-1]]
            if elsewhere is not None:
                again |= np.isin(orders[rows], elsewhere)
            repeated = _locate_rows(np.sort(rows[again]), found, segments)
            rows = rows[~again]
        kept = pa.array(rows)
        columns = [part.find_field("columns") for part in found]
        taken = None if None in columns else pa.concat_arrays(columns).take(kept)
        yield MergedRecords(records.take(kept), repeated, taken)
        starts = ends
        for part in parts:
            part.release()


def _sort_equal(rows: np.ndarray, orders: np.ndarray, records: pa.LargeBinaryArray) -> None:
    """Puts those of `rows` that have the same order into that of their bytes, in place."""
    same = np.flatnonzero(orders[rows[1:]] == orders[rows[:-1]])
    places = np.union1d(same, same + 1)
    if len(places):
        found = rows[places]
        table = pa.table({"order": orders[found], "record": records.take(pa.array(found))})
        by = [("order", "ascending"), ("record", "ascending")]
        rows[places] = found[pc.sort_indices(table, sort_keys=by).to_numpy()]


def _drop_repeated(rows: np.ndarray, orders: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Leaves out those of the sorted `rows` that have the order of one before them, but for
    `copies`."""
    own = rows[~copies[rows]]
    again = own[1:][orders[own[1:]] == orders[own[:-1]]]
    if not len(again):
        return rows
    kept = np.ones(len(rows), bool)
    kept[again] = False
    return rows[kept[rows]]


def _locate_rows(
    places: np.ndarray, parts: list[spill.SegmentRows], segments: list[spill.Segment]
) -> list[tuple[str, int]]:
    """Returns file and row number of what lies at `places` of the segments put together."""
    counts = [part.fields.num_rows for part in parts]
    ends = np.cumsum(counts)
    owners = np.searchsorted(ends, places, side="right")
    found = []
    for owner, row in zip(owners.tolist(), places - (ends - counts)[owners], strict=True):
        files = parts[owner].find_field("file")
        file = segments[owner].file if files is None else files[int(row)].as_py()
        found.append((file, parts[owner].fields.column("number")[int(row)].as_py()))
    return found
