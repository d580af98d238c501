"""No key is in two splits, whatever decides on these."""

from __future__ import annotations

import collections
import json

import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from preprocessing.rows import placement
from preprocessing.shards import encode, spill, split_leaks
from tests.preprocessing import table_runs, tables


@pytest.mark.parametrize("rows", [7, 100, 1 << 22])
def test_a_key_stays_where_it_is_held_out_the_most(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(split_leaks, "WINDOW_ROWS", rows)
    rng = np.random.default_rng(0)
    everything = np.unique(rng.integers(0, 2**64 - 1, 300, np.uint64, endpoint=True))
    of_split = {0: everything[:200], 1: everything[150:260], 2: everything[100:110]}
    segments = []
    for index, orders in of_split.items():
        for chunk, part in enumerate(np.array_split(rng.permutation(orders), 3)):
            splits = np.full(len(part), index, np.uint8)
            places = placement.RowPlacement(splits, np.zeros(len(part), np.uint32), part)
            framed = encode.frame(pa.array([b"x"] * len(part), pa.large_binary()))
            encoded = spill.Encoded(places, framed)
            written = spill.write(str(tmp_path), "train", (10 * index + chunk, 0), encoded=encoded)
            segments += [(key[0], segment) for key, segment in written]
    found = split_leaks.find(segments)
    assert sorted(found) == ["train"]
    expected = np.sort(np.concatenate([everything[100:110], everything[150:200]]))
    np.testing.assert_array_equal(np.sort(found["train"]), expected)


def test_the_ends_of_the_range():
    orders = np.array([0, 5, 2**64 - 1], np.uint64)
    assert split_leaks.slice_between(orders, 0, 2**64).tolist() == orders.tolist()
    assert split_leaks.slice_between(orders, 5, 2**63).tolist() == [5]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, False),
        ({"key": ["id"]}, False),
        ({"key": ["id", "name"], "split": {"columns": ["id"]}}, False),
        ({"key": ["id"], "split": {"columns": ["label"]}}, True),
        ({"key": ["id"], "split": {"by": "time", "column": "label", "eval": 1}}, True),
        ({"key": ["id"], "split": {"by": "time", "column": "id", "eval": 1}}, False),
        ({"split": {"by": "time", "column": "label", "eval": 1}}, False),
    ],
)
def test_where_it_can_happen(data, expected):
    columns = {**tables.COLUMNS, "name": {"type": "string"}}
    assert split_leaks.are_possible(tables.make_config("x", columns, **data).data) == expected


def test_two_inputs_may_share_keys():
    inputs = {name: {"files": name} for name in ("train", "test")}
    assert split_leaks.are_possible(tables.make_config("x", key=["id"], inputs=inputs).data)


def _ids(job_config, made, folder):
    return {
        split: sorted(row["id"] for row in table_runs.records(job_config, made, folder, split))
        for split in made.splits
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_by_time(tmp_path, workers):
    """Users 0 to 39 come back later, at a time that is held out."""
    lines = [f"{n % 100},n,{n},0" for n in range(140)]
    (tmp_path / "in.csv").write_text(tables.text(*lines))
    columns = {**tables.COLUMNS, "size": {"type": "int64"}}
    rule = {"by": "time", "column": "size", "eval": 100, "test": 120}
    job_config = tables.make_config(
        tmp_path / "in.csv", columns, key=["id"], split=rule, error_budget=0.5
    )
    made, folder, said = table_runs.run(job_config, tmp_path, num_workers=workers)
    ids = _ids(job_config, made, folder)
    assert ids == {
        "train": list(range(40, 100)),
        "eval": list(range(20)),
        "test": list(range(20, 40)),
    }
    assert "40 x id duplicate" in said
    (path,) = folder.glob("dead_letter/train.jsonl")
    letters = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(letter["row"] for letter in letters) == list(range(2, 42))


def test_between_inputs_and_without_a_budget(tmp_path):
    (tmp_path / "train.csv").write_text(tables.text(*tables.rows(50)))
    (tmp_path / "test.csv").write_text(tables.text(*tables.rows(10, first=45)))
    inputs = {name: {"files": str(tmp_path / f"{name}.csv")} for name in ("train", "test")}
    strict = tables.make_config("-", key=["id"], inputs=inputs)
    with pytest.raises(
        errors.DataError,
        match=r"train.csv': row \d+: column 'id' has the value of an earlier row, ",
    ):
        table_runs.run(strict, tmp_path / "strict")
    lenient = tables.make_config("-", key=["id"], inputs=inputs, error_budget=5)
    made, folder, _ = table_runs.run(lenient, tmp_path / "lenient")
    ids = _ids(lenient, made, folder)
    assert ids["test"] == list(range(45, 55))
    assert sorted(ids["train"] + ids["eval"]) == list(range(45))
    _, again, _ = table_runs.run(lenient, tmp_path / "two", num_workers=2)
    assert table_runs.files(again) == table_runs.files(folder)


@pytest.mark.parametrize("workers", [1, 2])
def test_statistics_are_those_of_the_records(tmp_path, workers):
    """Neither rows whose key is there already count, nor those that another split has."""
    train = [*tables.rows(50), *(f"{n},again,100,1" for n in range(10)), "x,bad,0,0"]
    (tmp_path / "train.csv").write_text(tables.text(*train))
    (tmp_path / "test.csv").write_text(tables.text(*(f"{n},test,0,0" for n in range(40, 55))))
    inputs = {name: {"files": str(tmp_path / f"{name}.csv")} for name in ("train", "test")}
    job_config = tables.make_config("-", key=["id"], inputs=inputs, error_budget=0.5)
    made, folder, _ = table_runs.run(job_config, tmp_path, num_workers=workers)
    for split, of_split in made.statistics.items():
        rows = table_runs.records(job_config, made, folder, split)
        size = of_split.columns["size"]
        values = np.array([row["size"] for row in rows], np.float64)
        assert size.count == made.splits[split].records == len(rows)
        assert (size.min, size.max) == (values.min(), values.max())
        assert (size.mean, size.variance) == pytest.approx((values.mean(), values.var()))
        names = collections.Counter(row["name"].decode() for row in rows)
        assert dict(of_split.columns["name"].vocabulary) == names
    assert sum(made.splits[split].records for split in ("train", "eval")) == 40
