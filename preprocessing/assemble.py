"""Puts the segments of a shard together into its TFRecord file, in the shard's own order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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


def write_shard(
    path: str, name: str, segments: list[spill.Segment], block_records: int
) -> manifest.Shard:
    """Merges `segments` into the file at `path`; `name` is what the manifest calls it.

    Records are in ascending order of their hash; equal ones by origin, which is the order of
    the raw rows. Returns counts, the file's CRC-32C, and the byte offset of each block.
    """
    checksum = google_crc32c.Checksum()
    lengths: list[np.ndarray] = []
    with storage.open_file(path, "wb") as file:
        for window in ahead(_windows(sorted(segments, key=lambda s: s.origin))):
            data = binary.data(window)
            checksum.update(data)
            file.write(data)
            lengths.append(binary.lengths(window))
    ends = np.cumsum(np.concatenate(lengths)) if lengths else np.zeros(0, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    return manifest.Shard(
        path=name,
        records=len(ends),
        bytes=int(ends[-1]) if len(ends) else 0,
        crc32c=checksum.hexdigest().decode(),
        blocks=tuple(starts[::block_records].tolist()),
    )


def _windows(segments: list[spill.Segment]) -> Iterator[pa.LargeBinaryArray]:
    """Yields the records of all segments in order, some megabytes at a time."""
    count = -(-sum(s.bytes for s in segments) // WINDOW_BYTES)
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(spill.read(segment)) for segment in segments]
        starts = [0] * len(parts)
        for window in range(1, count + 1):
            ends = [_rows_below(orders, window, count) for orders, _ in parts]
            spans = list(zip(parts, starts, ends, strict=True))
            orders = np.concatenate([orders[start:end] for (orders, _), start, end in spans])
            records = pa.concat_arrays(
                [r.slice(start, end - start) for (_, r), start, end in spans]
            )
            # A stable sort: rows of equal order stay in the order of the segments.
            yield records.take(pa.array(np.argsort(orders, kind="stable")))
            starts = ends


def _rows_below(orders: np.ndarray, window: int, count: int) -> int:
    """Returns how many of the ascending `orders` lie in the first `window` of `count` windows."""
    if window == count:
        return len(orders)
    return int(np.searchsorted(orders, np.uint64(window * 2**64 // count)))
