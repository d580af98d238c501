"""Rows without a key: what is in them decides, equal ones are counted, and files do not matter."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest

from preprocessing.build import copies
from preprocessing.rows import content, placement
from preprocessing.shards import encode, merge, spill
from preprocessing.sources import base
from preprocessing.statistics import column_stats
from tests.preprocessing import table_runs, tables

RULE = {"eval": 0.2, "test": 0.1}


def _config(folder, parts, **data):
    folder.mkdir()
    for index, lines in enumerate(parts):
        (folder / f"{index}.csv").write_text(tables.text(*lines))
    return tables.make_config(folder / "*.csv", split=RULE, **data)


def _shards(folder) -> dict[str, bytes]:
    return {
        name: content
        for name, content in table_runs.files(folder).items()
        if name != "manifest.json"
    }


def _row(record: dict) -> tuple:
    return record["id"], record["name"], record["size"]


def _by_split(job_config, tmp_path) -> dict[str, collections.Counter]:
    made, folder, _ = table_runs.run(job_config, tmp_path)
    return {
        split: collections.Counter(map(_row, table_runs.records(job_config, made, folder, split)))
        for split in made.splits
    }


@pytest.fixture
def lines():
    """Some rows are there once, some twice or three times, three of them hundreds of times."""
    return [*tables.rows(300), *tables.rows(60) * 2, *tables.rows(3, first=400) * 200]


def test_the_same_rows_in_any_files_give_the_same_bytes(tmp_path, monkeypatch, lines):
    made, folder, _ = table_runs.run(_config(tmp_path / "one", [lines]), tmp_path / "a")
    whole = _shards(folder)
    assert sum(split.records for split in made.splits.values()) == len(lines)
    shuffled = list(lines)
    random.Random(0).shuffle(shuffled)
    monkeypatch.setattr(copies, "WINDOW_ROWS", 50)
    monkeypatch.setattr(copies, "PIECE_BYTES", 1000)
    monkeypatch.setattr(merge, "WINDOW_BYTES", 5000)
    three = [shuffled[:100], shuffled[100:600], shuffled[600:]]
    for workers, parts in ((1, [lines[:7], lines[7:]]), (2, three)):
        cut = tmp_path / f"{workers}-{len(parts)}"
        again, folder, _ = table_runs.run(
            _config(cut, parts),
            tmp_path / f"out{cut.name}",
            num_workers=workers,
            sizes=base.Sizes(4000, 8000),
        )
        assert _shards(folder) == whole
        assert again.statistics == made.statistics


def test_statistics_are_those_of_the_records(tmp_path, lines):
    job_config = _config(tmp_path / "in", [lines[:500], lines[500:]])
    made, folder, _ = table_runs.run(job_config, tmp_path)
    every = []
    for split, found in made.statistics.items():
        records = table_runs.records(job_config, made, folder, split)
        every += map(_row, records)
        ids = np.array([record["id"] for record in records])
        assert found.columns["id"].count == len(records) == made.splits[split].records
        assert found.columns["id"].mean == pytest.approx(ids.mean(), rel=1e-14)
        assert found.columns["id"].variance == pytest.approx(ids.var(), rel=1e-12)
        assert (found.columns["id"].min, found.columns["id"].max) == (ids.min(), ids.max())
        halves = np.percentile(ids, range(101), method="inverted_cdf")
        assert found.columns["id"].quantiles == tuple(halves)
        names = collections.Counter(record["name"].decode() for record in records)
        assert dict(found.columns["name"].vocabulary) == names
    expected = [line.split(",") for line in lines]
    assert sorted(every) == sorted((int(i), n.encode(), float(s)) for i, n, s, _ in expected)
    # Of a row that is there 200 times some are in each split, as if all were different.
    held_out = made.splits["eval"].records / len(lines)
    assert 0.15 < held_out < 0.25


def test_a_new_dump_moves_no_row(tmp_path, lines):
    before = _by_split(_config(tmp_path / "old", [lines]), tmp_path / "a")
    more = [*lines, *tables.rows(60, first=600), *lines[:30]]
    random.Random(1).shuffle(more)
    after = _by_split(_config(tmp_path / "new", [more[:200], more[200:]]), tmp_path / "b")
    for split, counted in before.items():
        assert counted <= after[split], "all that was there is there still"
    assert sum(found.total() for found in after.values()) == len(more)


def test_equal_rows_of_a_time_split_stay_where_the_time_says(tmp_path, lines):
    job_config = _config(tmp_path / "in", [lines])
    rule = {"by": "time", "column": "id", "eval": 200, "test": 401}
    timed = tables.make_config(tmp_path / "in" / "*.csv", split=rule)
    found = _by_split(timed, tmp_path)
    assert {row[0] for row in found["train"]} == set(range(200))
    assert {row[0] for row in found["eval"]} == {*range(200, 300), 400}
    assert {row[0]: n for row, n in found["test"].items()} == {401: 200, 402: 200}
    assert job_config.data.columns == timed.data.columns


def test_rows_whose_origin_is_recorded_are_all_there(tmp_path, lines):
    job_config = _config(tmp_path / "in", [lines[:400], lines[400:]], provenance=True)
    found = _by_split(job_config, tmp_path)
    assert sum(counted.total() for counted in found.values()) == len(lines)
    assert found == _by_split(_config(tmp_path / "plain", [lines]), tmp_path / "b")


def test_different_rows_with_one_hash_are_all_kept(tmp_path, monkeypatch):
    """What a hash of 64 bits does once in a long time."""
    monkeypatch.setattr(
        content, "hash_rows", lambda batch, columns: np.arange(len(batch), dtype="u8") // 4
    )
    job_config = _config(tmp_path / "in", [tables.rows(200)])
    made, folder, _ = table_runs.run(job_config, tmp_path)
    ids = [
        r["id"]
        for split in made.splits
        for r in table_runs.records(job_config, made, folder, split)
    ]
    assert sorted(ids) == list(range(200))


def test_records_are_decoded_to_what_they_were(tmp_path):
    data = tables.make_config("x").data
    batch = tables.batch([(1, "a", 2.5, 0), (-7, None, None, 1), (2**62, "ä", 0.0, 0)])
    framed = encode.frame(encode.encode(batch, data.columns))
    assert copies.decode_records(framed, data).equals(batch)


def test_equal_rows_lie_once_in_a_spill_file(tmp_path):
    contents = np.array([7, 7, 8, 7, 9, 8], np.uint64)
    places = placement.RowPlacement(
        np.zeros(6, np.uint8), np.zeros(6, np.uint32), contents * np.uint64(2)
    )
    framed = encode.frame(tables.pa.array([b"%d" % c for c in contents], "large_binary"))
    encoded = spill.Encoded(places, framed, contents=contents)
    ((key, segment),) = spill.write(str(tmp_path), "train", (0, 0), encoded=encoded)
    rows = spill.read(segment)
    assert rows.orders.tolist() == [14, 16, 18] and rows.counts.tolist() == [3, 2, 1]
    assert spill.count_rows_written(str(tmp_path)) == 6 and segment.records == 3
    data = tables.make_config("x", split={"eval": 0}).data
    found = [part for part, _ in copies.spill_copies(key, [segment], str(tmp_path), data=data)]
    assert sum(s.records for part in found for _, s in part) == 3


def test_rows_are_taken_from_what_was_learned():
    data = tables.make_config("x").data
    batch = tables.batch([(i % 5, f"n{i % 3}", (i % 4) / 2, i % 2) for i in range(240)])
    whole, less = column_stats.count_batch(batch, "train", data), batch.slice(60)
    taken = column_stats.turn_into_removals(column_stats.count_batch(less, "train", data))
    found = column_stats.finish(column_stats.merge([taken, whole], data), data)
    wanted = column_stats.finish(column_stats.count_batch(batch.slice(0, 60), "train", data), data)
    assert found == wanted
