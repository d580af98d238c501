"""What is written to a spill file comes back by shard, in order."""

from __future__ import annotations

import errno
import os
import resource

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.rows import placement
from preprocessing.shards import spill

_TRAIN, _EVAL = placement.SPLITS.index("train"), placement.SPLITS.index("eval")


def _places(split, shard, rank):
    return placement.RowPlacement(
        np.array(split, np.uint8), np.array(shard, np.uint32), np.array(rank, np.uint64)
    )


def _write(folder, places, records, origin=(3, 1), numbers=None):
    encoded = spill.Encoded(places, pa.array(records, pa.large_binary()), "in.csv", numbers)
    return dict(spill.write(str(folder), "train", origin, encoded=encoded))


def test_each_shard_has_its_rows_in_ascending_order(tmp_path):
    places = _places(
        [_TRAIN, _EVAL, _TRAIN, _TRAIN, _TRAIN], [1, 0, 0, 1, 1], [9, 5, 7, 2**64 - 1, 4]
    )
    found = _write(tmp_path, places, [b"a", b"bb", b"ccc", b"d", b"e"])
    assert list(found) == [("train", 0), ("train", 1), ("eval", 0)]
    rows = {}
    for key, segment in found.items():
        assert segment.origin == (3, 1)
        found_rows = spill.read(segment)
        records = found_rows.records.to_pylist()
        rows[key] = list(zip(found_rows.orders.tolist(), records, strict=True))
        assert segment.records == len(records)
        assert segment.bytes == sum(map(len, records))
    assert rows["train", 0] == [(7, b"ccc")]
    assert rows["train", 1] == [(4, b"e"), (9, b"a"), (2**64 - 1, b"d")]
    assert rows["eval", 0] == [(5, b"bb")]


def test_rows_of_equal_order_stay_as_they_were(tmp_path):
    found = _write(tmp_path, _places([0] * 3, [0] * 3, [1, 1, 1]), [b"x", b"y", b"z"])
    rows = spill.read(found["train", 0])
    assert rows.records.to_pylist() == [b"x", b"y", b"z"]


def test_rows_know_where_they_come_from(tmp_path):
    places = _places([_TRAIN] * 3, [1, 0, 1], [9, 5, 7])
    found = _write(tmp_path, places, [b"x"] * 3, numbers=np.array([10, 11, 12]))
    assert {segment.file for segment in found.values()} == {"in.csv"}
    rows = spill.read(found["train", 1])
    assert rows.find_field("number").to_pylist() == [12, 10]
    assert rows.find_field("columns") is None


def test_columns_go_with_their_rows(tmp_path):
    places = _places([_TRAIN] * 3, [1, 0, 1], [9, 5, 7])
    columns = pa.record_batch({"order": ["a", None, "c"], "list": [[1, 2], [3, 4], None]})
    framed = pa.array([b"x"] * 3, pa.large_binary())
    encoded = spill.Encoded(places, framed, "in.csv", np.array([10, 11, 12]), columns)
    found = dict(spill.write(str(tmp_path), "train", (0, 0), encoded=encoded))
    rows = spill.read(found["train", 1])
    assert pa.RecordBatch.from_struct_array(rows.find_field("columns")).equals(columns.take([2, 0]))
    part = rows.slice(1, 2)
    assert (part.orders.tolist(), part.find_field("number").to_pylist()) == ([9], [10])
    assert part.find_field("columns").to_pylist() == [{"order": "a", "list": [1, 2]}]


def test_no_rows_leave_no_file(tmp_path):
    assert _write(tmp_path, _places([], [], []), []) == {}
    assert not list(tmp_path.iterdir())


def test_one_file_a_chunk_and_its_rows_in_the_name(tmp_path):
    _write(tmp_path, _places([0] * 5, range(5), range(5)), [b"x"] * 5, (0, 0))
    _write(tmp_path, _places([0] * 7, range(7), range(7)), [b"x"] * 7, (0, 1))
    (tmp_path / "train-00000.rows3.json").touch()
    assert len(list(tmp_path.glob("*.arrow"))) == 2
    assert spill.count_rows_written(str(tmp_path)) == 12
    assert spill.count_rows_written(str(tmp_path / "absent")) == 0


def test_writing_it_again_gives_the_same_file(tmp_path):
    places = _places([0] * 50, [0, 1] * 25, range(50))
    _write(tmp_path, places, [b"x"] * 50)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    _write(tmp_path, places, [b"x"] * 50)
    assert path.read_bytes() == before


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(OSError) as info:
        _write(tmp_path / "absent", _places([0], [0], [0]), [b"x"])
    assert info.value.errno == errno.ENOENT


def test_rows_are_there_again_after_their_memory_was_given_back(tmp_path):
    found = _write(tmp_path, _places([_TRAIN] * 3, [1, 0, 1], [9, 5, 7]), [b"x", b"y", b"z"])
    rows = spill.read(found["train", 1])
    assert rows.mapped is not None
    rows.release()
    assert (rows.orders.tolist(), rows.records.to_pylist()) == ([7, 9], [b"z", b"x"])


def test_more_segments_than_a_process_may_have_files(tmp_path):
    """Of a thousand open files, which is usual, four gigabytes of raw data need more."""
    found: list[spill.Segment] = []
    for chunk in range(60):
        found += _write(tmp_path, _places([_TRAIN], [0], [chunk]), [b"x"], (chunk, 0)).values()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 30
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        rows = spill.read_all(found)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert [part.orders.tolist() for part in rows] == [[chunk] for chunk in range(60)]
