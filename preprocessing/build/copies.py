"""Rows that are equal to another one, where no key tells rows apart.

What is in a row decides its split, shard and order, so that the same rows have the same places in
whichever files they lie. Equal rows would all have one place. So they are counted: the first stays
there, and each of the others gets a place by its content and its number among them. Which row is
which does not matter, as they are equal.

Equal rows meet in the shard of the first. There the others are taken out (`merge` leaves them
out by itself) and spilled once more for their own shards. Their content is known by its hash of 64
bits: of two different rows that share it (3e-6 for 10 million rows) both stay, one of them as if
it were a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config, storage
from pipeline.config.splits import SPLITS, SplitName
from pipeline.records import tfrecord
from preprocessing.arrow import arrow_types, cast, examples
from preprocessing.arrow.binary import compute_lengths, copy_values
from preprocessing.rows import content, placement
from preprocessing.rows.split import draw, find_input_split
from preprocessing.shards import spill
from preprocessing.statistics import column_stats

# Orders that are looked at together, and bytes of the records of rows that may all be equal to
# others: they bound memory, whatever the number of rows.
WINDOW_ROWS, WINDOW_BYTES = 1 << 22, 64 << 20
# Bytes of copies that are spilled together.
PIECE_BYTES = 4 << 20

Spilled = tuple[list[tuple[tuple[str, int], spill.Segment]], column_stats.Partials]


def spill_copies(
    key: tuple[SplitName, int], segments: Sequence[spill.Segment], folder: str, *, data: config.Data
) -> Iterator[Spilled]:
    """Spills the copies among the rows of one shard. Yields segments with split and shard of each,
    and what is to be added to the statistics because copies are in other splits than the first."""
    split, shard = key
    for window, found in enumerate(_find_repeated(segments)):
        for piece, (rows, numbers) in enumerate(_cut_pieces(found)):
            keys = content.build_keys(
                found.column("content").to_numpy()[rows], numbers.astype(np.uint64)
            )
            before = np.full(len(rows), SPLITS.index(split), np.uint8)
            splits = draw(keys, before, find_input_split(data, split), data=data)
            places = placement.place(keys, splits, data)
            name = f"copies-{split}-{shard:05d}-{window:04d}-{piece:06d}.arrow"
            framed = found.column("record").take(pa.array(rows))
            encoded = spill.Encoded(places, framed)
            path = storage.join(folder, name)
            parts = list(spill.write_file(path, (window, piece), encoded, copies=True))
            yield parts, _count_moved(found, rows, splits, split=split, data=data)


def _find_repeated(segments: Sequence[spill.Segment]) -> Iterator[pa.RecordBatch]:
    """Yields the rows that are there more than once, with the fields `order`, `content`, `count`
    and `record`, by order and bytes of the record; all rows of one order together."""
    rows, size = sum(s.records for s in segments), sum(s.bytes for s in segments)
    windows = 1 + max(rows // WINDOW_ROWS, size // WINDOW_BYTES)
    parts = spill.read_all(segments)
    starts = [0] * len(parts)
    for window in range(1, windows + 1):
        ends = [part.count_below(window, windows) for part in parts]
        found = list(map(spill.SegmentRows.slice, parts, starts, ends))
        orders = np.sort(np.concatenate([part.orders for part in found]))
        again = [orders[1:][orders[1:] == orders[:-1]]]
        again += [part.orders[part.counts > 1] for part in found if part.is_counted]
        wanted = np.unique(np.concatenate(again))
        if len(wanted):
            yield _concatenate([_select_orders(part, wanted) for part in found])
        starts = ends
        for part in parts:
            part.release()


def _select_orders(part: spill.SegmentRows, wanted: np.ndarray) -> pa.RecordBatch:
    """Returns the rows that have one of the `wanted` orders, which ascend."""
    at = np.searchsorted(wanted, part.orders).clip(max=len(wanted) - 1)
    rows = pa.array(np.flatnonzero(wanted[at] == part.orders))
    fields = {name: part.fields.column(name).take(rows) for name in ("order", "content", "record")}
    return pa.record_batch({**fields, "count": pa.array(part.counts).take(rows)})


def _concatenate(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(parts).combine_chunks()
    by = [("order", "ascending"), ("record", "ascending")]
    (batch,) = table.take(pc.sort_indices(table, sort_keys=by)).combine_chunks().to_batches()
    return batch


def _cut_pieces(found: pa.RecordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields which of the rows each copy is of, and its number, from 1; some megabytes at once."""
    orders, counts = found.column("order").to_numpy(), found.column("count").to_numpy()
    ends = np.cumsum(counts)
    first = np.append(True, orders[1:] != orders[:-1])
    # How many there are before the first of those that have the same order.
    before = (ends - counts)[np.flatnonzero(first)[np.cumsum(first) - 1]]
    longest = int(compute_lengths(found.column("record")).max())
    at_once = max(1, PIECE_BYTES // longest)
    for start in range(0, int(ends[-1]), at_once):
        places = np.arange(start, min(start + at_once, int(ends[-1])))
        rows = np.searchsorted(ends, places, side="right")
        numbers = places - before[rows]
        if numbers.any():
            yield rows[numbers > 0], numbers[numbers > 0]


def _count_moved(
    found: pa.RecordBatch,
    rows: np.ndarray,
    splits: np.ndarray,
    *,
    split: SplitName,
    data: config.Data,
) -> column_stats.Partials:
    """Returns what was learned of rows for another split than they go to: for that one, and to be
    taken from what is known of `split`."""
    away = splits != SPLITS.index(split)
    if not away.any():
        return {}
    different, indices = np.unique(rows[away], return_inverse=True)
    batch = decode_records(found.column("record").take(pa.array(different)), data)
    moved, splits = batch.take(pa.array(indices)), splits[away]
    parts = [column_stats.turn_into_removals(column_stats.count_batch(moved, split, data))]
    for index in np.unique(splits):
        of_split = moved.filter(pa.array(splits == index))
        parts.append(column_stats.count_batch(of_split, SPLITS[index], data))
    return column_stats.merge(parts, data)


def decode_records(framed: pa.LargeBinaryArray, data: config.Data) -> pa.RecordBatch:
    """Returns the columns of records, as they were before they were encoded."""
    ends = -tfrecord.FOOTER_BYTES
    payloads = [record[tfrecord.HEADER_BYTES : ends] for record in copy_values(framed)]
    batch, bad = examples.parse_columns(payloads, data.columns, {})
    assert not bad, bad
    arrays = [cast.convert(batch.column(name), c)[0] for name, c in data.columns.items()]
    return pa.record_batch(arrays, arrow_types.arrow_schema(data.columns))
