"""A shard is the sorted union of its segments, with offsets and checksum that are true."""

from __future__ import annotations

import dataclasses

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from pipeline.records import tfrecord
from preprocessing.rows import placement
from preprocessing.shards import encode, merge, spill


def _segments(folder, orders_by_chunk):
    """Spills one chunk per list of orders; a record's payload says chunk, row and order."""
    found = []
    for chunk, orders in enumerate(orders_by_chunk):
        payloads = [b"%d/%d/%d" % (chunk, row, rank) * 9 for row, rank in enumerate(orders)]
        places = placement.RowPlacement(
            np.zeros(len(orders), np.uint8),
            np.zeros(len(orders), np.uint32),
            np.array(orders, np.uint64),
        )
        framed = encode.frame(pa.array(payloads, pa.large_binary()))
        numbers = np.arange(len(orders)) + 100
        columns = pa.record_batch({"at": numbers + 1000 * chunk})
        encoded = spill.Encoded(places, framed, f"file{chunk}", numbers, columns)
        found += [s for _, s in spill.write(str(folder), "train", (chunk, 0), encoded=encoded)]
    return found


def _random_orders(*counts):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 2**64, count, np.uint64).tolist() for count in counts]


@pytest.mark.parametrize("window_bytes", [100, 5000, 16 << 20])
def test_records_are_in_order_whatever_the_window(tmp_path, window_bytes):
    orders = _random_orders(40, 1, 25)
    path = str(tmp_path / "out")
    shard, _ = merge.write_shard(
        path, "f/out", _segments(tmp_path, orders), block_records=7, window_bytes=window_bytes
    )
    found = [_order_of(payload) for payload in tfrecord.read(path)]
    assert found == sorted(rank for chunk in orders for rank in chunk)
    assert shard.records == 66 and shard.path == "f/out"


def _order_of(payload: bytes) -> int:
    """The payload is nine times the same text, whose last part is the order."""
    text = payload[: len(payload) // 9]
    return int(text.split(b"/")[2])


def test_of_rows_without_a_key_the_first_of_an_order_is_kept_and_all_copies(tmp_path):
    first, second, third = _segments(tmp_path, [[5, 5, 9], [5, 1], [5]])
    segments = [dataclasses.replace(third, copies=True), second, first]
    path = str(tmp_path / "out")
    shard, repeated = merge.write_shard(path, "out", segments, block_records=7)
    texts = [p[: len(p) // 9].decode() for p in tfrecord.read(path)]
    assert texts == ["1/1/1", "0/0/5", "2/0/5", "0/2/9"]
    assert shard.records == 4 and not repeated


def test_the_first_two_of_a_shard_may_be_equal_too(tmp_path):
    path = str(tmp_path / "out")
    segments = _segments(tmp_path, [[1, 1, 5]])
    shard, repeated = merge.write_shard(path, "out", segments, block_records=7, unique=True)
    assert shard.records == 2 and repeated == [("file0", 101)]


@pytest.mark.parametrize("window_bytes", [50, 16 << 20])
def test_of_equal_orders_only_the_first_is_kept_if_they_must_be_unique(tmp_path, window_bytes):
    segments = _segments(tmp_path, [[5, 5, 9], [5, 1], [9]])
    path = str(tmp_path / "out")
    seen: list[int] = []
    shard, repeated = merge.write_shard(
        path,
        "out",
        segments[::-1],
        block_records=7,
        window_bytes=window_bytes,
        unique=True,
        seen=lambda b: seen.extend(b["at"].to_pylist()),
    )
    texts = [p[: len(p) // 9].decode() for p in tfrecord.read(path)]
    assert texts == ["1/1/1", "0/0/5", "0/2/9"] and shard.records == 3
    # Numbers are those of the segments, whose rows stand in ascending order.
    assert sorted(repeated) == [("file0", 101), ("file1", 100), ("file2", 100)]
    # The columns are those of the rows that are kept.
    assert seen == [1101, 100, 102]


def test_the_figures_are_those_of_the_file(tmp_path):
    path = tmp_path / "out"
    shard, _ = merge.write_shard(
        str(path), "out", _segments(tmp_path, _random_orders(50)), block_records=16
    )
    content = path.read_bytes()
    assert shard.bytes == len(content)
    assert int(shard.crc32c, 16) == google_crc32c.value(content)
    everything = list(tfrecord.read(str(path)))
    assert len(shard.blocks) == 4
    for block, offset in enumerate(shard.blocks):
        wanted = everything[block * 16 : block * 16 + 16]
        assert list(tfrecord.read(str(path), offset, 16)) == wanted


def test_no_segments_give_an_empty_file(tmp_path):
    shard, _ = merge.write_shard(str(tmp_path / "out"), "out", [], block_records=16)
    assert (shard.records, shard.bytes, shard.crc32c, shard.blocks) == (0, 0, "00000000", ())
    assert (tmp_path / "out").read_bytes() == b""


def test_equal_orders_are_by_content_where_rows_have_no_order(tmp_path):
    cuts = ([[5, 5, 9], [5, 1], [5]], [[5], [5, 1], [5, 5, 9]])
    for index, orders in enumerate(cuts):
        (tmp_path / str(index)).mkdir()
        found = _segments(tmp_path / str(index), orders)
        segments = [dataclasses.replace(segment, copies=True) for segment in found]
        path = str(tmp_path / f"out{index}")
        merge.write_shard(path, "out", segments, block_records=7, by_content=True)
        found = [bytes(p) for p in tfrecord.read(path)]
        ranks = [_order_of(p) for p in found]
        assert ranks == [1, 5, 5, 5, 5, 9]
        assert found[1:5] == sorted(found[1:5], key=tfrecord.frame)
