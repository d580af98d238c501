"""Thousands of small files: as the same rows in a file each, and every row known by its file."""

from __future__ import annotations

import gzip
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.records import manifest
from preprocessing import sources
from preprocessing.build import job
from preprocessing.sources import base, together
from tests.preprocessing import tables


def _write(folder: pathlib.Path, files: int, rows: int, packed: bool = False) -> str:
    """Writes tables whose rows continue from one to the next, and returns their pattern."""
    folder.mkdir()
    for file in range(files):
        text = tables.text(*tables.rows(rows, file * rows)).encode()
        if packed:
            (folder / f"{file:03}.csv.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{file:03}.csv").write_bytes(text)
    return f"{folder}/*"


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_many_files_are_few_batches_that_know_them(tmp_path, packed):
    pattern = _write(tmp_path / "in", 40, 5, packed)
    source = together.wrap(sources.choose(tables.make_config(pattern).data))
    (chunk,) = source.plan("train")
    assert chunk.rows == (None if packed else 200)
    (rows,) = source.read(chunk)
    assert rows.batch.column("id").to_pylist() == [str(i).encode() for i in range(200)]
    ending = "csv.gz" if packed else "csv"
    where = [(rows.file("id", row), rows.find_number(row)) for row in range(200)]
    assert where == [
        (f"{tmp_path}/in/{file:03}.{ending}", 2 + row) for file in range(40) for row in range(5)
    ]


def test_large_chunks_stay_alone(tmp_path):
    pattern = _write(tmp_path / "in", 6, 10)
    size = (tmp_path / "in" / "005.csv").stat().st_size
    for read, together_are in ((2 * size, [2, 2, 2]), (size // 3, [1] * 6)):
        source = together.wrap(sources.choose(tables.make_config(pattern).data, base.Sizes(read)))
        assert [len(chunk.details) for chunk in source.plan("train")] == together_are


def test_files_whose_columns_have_other_types_are_batches_of_their_own(tmp_path):
    (tmp_path / "in").mkdir()
    for file, kind in enumerate([pa.int32(), pa.int32(), pa.int64()]):
        table = pa.table({"x": pa.array([file], kind), "label": [0]})
        pq.write_table(table, tmp_path / "in" / f"{file}.parquet")
    columns = {"x": {"type": "int64"}, "label": {"type": "int64"}}
    data = tables.make_config(f"{tmp_path}/in/*", columns, source="parquet").data
    source = together.wrap(sources.choose(data))
    (chunk,) = source.plan("train")
    found = [rows.batch.column("x") for rows in source.read(chunk)]
    assert [(array.type, array.to_pylist()) for array in found] == [
        (pa.int32(), [0, 1]),
        (pa.int64(), [2]),
    ]


def _shards(made: manifest.Manifest) -> dict[str, list[str]]:
    return {name: [s.crc32c for s in split.shards] for name, split in made.splits.items()}


def test_the_records_are_those_of_one_file(tmp_path):
    many = job.run(tables.make_config(_write(tmp_path / "many", 30, 7)), str(tmp_path / "a"))
    one = job.run(tables.make_config(_write(tmp_path / "one", 1, 210)), str(tmp_path / "b"))
    assert _shards(many) == _shards(one)
    assert many.statistics == one.statistics


def test_every_letter_names_the_file_and_row(tmp_path):
    pattern = _write(tmp_path / "in", 5, 3)
    folder = tmp_path / "in"
    # A value out of range, rows that are no rows, a file of nothing else, and a key of before.
    (folder / "001.csv").write_text(tables.text("3,n,1,0", "4,n,101,1", "5,n"))
    (folder / "003.csv").write_text(tables.text("x", "9,n,1,2"))
    (folder / "004.csv").write_text(tables.text("12,n,1,0", "0,again,1,0", "14,n,1,0"))
    config = tables.make_config(pattern, key=["id"], error_budget=10)
    job.run(config, str(tmp_path / "out"))
    (path,) = (tmp_path / "out").rglob("train.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((pathlib.Path(one["file"]).name, one["row"], one["reason"]) for one in found) == [
        ("001.csv", 3, "range"),
        ("001.csv", 4, "columns"),
        ("003.csv", 2, "columns"),
        ("003.csv", 3, "range"),
        ("004.csv", 3, "duplicate"),
    ]
    read = [one for one in found if one["reason"] != "duplicate"]
    assert [(one["file"], one["row"]) for one in read] == sorted(
        (one["file"], one["row"]) for one in read
    )
