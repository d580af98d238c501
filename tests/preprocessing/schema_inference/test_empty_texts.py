"""Cells that hold an empty text, as programs that quote every cell write what is missing."""

from __future__ import annotations

import csv
import functools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.config import config_file
from preprocessing.build import job
from preprocessing.schema_inference import write_config

ROWS = [
    {
        "size": "" if n % 9 == 0 else f"{n / 7:.3f}",
        "rooms": "" if n % 8 == 0 else str(n % 5),
        "day": "" if n % 7 == 0 else f"2020-{1 + n % 12:02}-{1 + n % 28:02}",
        "word": ("", "a", "b")[n % 3],
        "y": "" if n % 50 == 1 else f"{n / 3:.2f}",
    }
    for n in range(400)
]


def _csv(path, rows, quoting=csv.QUOTE_ALL):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=quoting)
        writer.writeheader()
        writer.writerows(rows)


def _lines(path, lines):
    path.write_text("\n".join([*lines, ""]))


def _parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)


def _made(path, rows, write):
    write(path, rows)
    out = str(path.parent / "t.yaml")
    made = write_config.propose(str(path), out, "y")
    write_config.write(out, made.text)
    return made, yaml.safe_load(made.text), config_file.load(out)


@pytest.mark.parametrize(("name", "write"), [("t.csv", _csv), ("t.parquet", _parquet)])
def test_among_numbers_and_dates_they_are_missing(tmp_path, name, write):
    made, tree, loaded = _made(tmp_path / name, ROWS, write)
    columns = tree["data"]["columns"]
    assert [columns[n]["type"] for n in ROWS[0]] == [
        "float32", "int64", "string", "string", "float32",
    ]  # fmt: skip
    assert [columns[n].get("missing") for n in ROWS[0]] == ["allow", "allow", "allow", None, "drop"]
    assert "day_month" in tree["features"]
    (said,) = made.remarks
    assert said.startswith("the label 'y' is missing in 8 of 400 rows (2.0 %): make preprocess")
    built = job.run(loaded, str(tmp_path))
    assert sum(split.records for split in built.splits.values()) == 392
    missing = {n: built.statistics["train"].columns[n].missing for n in ("size", "rooms", "word")}
    assert 0 < missing["size"] < missing["rooms"] and missing["word"] == 0


def test_among_texts_they_are_one_more(tmp_path):
    rows = [{"code": ("", "07", "0123")[n % 3], "y": n % 2} for n in range(90)]
    _, tree, _ = _made(tmp_path / "t.csv", rows, _csv)
    assert tree["data"]["columns"]["code"] == {"type": "string", "allowed": ["", "0123", "07"]}


def test_a_few_numbers_are_no_texts(tmp_path):
    rows = [{"n": ("", "1.5", "2.5")[k % 3], "y": k % 2} for k in range(90)]
    _, tree, _ = _made(tmp_path / "t.csv", rows, _csv)
    assert tree["data"]["columns"]["n"]["type"] == "float32"


def test_with_other_texts_for_missing(tmp_path):
    path = tmp_path / "t.csv"
    values = ('""', "?", "1.5", "2.5", "7")
    lines = [f"{values[k % 5]},{k % 2}" for k in range(90)]
    path.write_text("\n".join(["n,y", *lines, ""]))
    tree = yaml.safe_load(write_config.propose(str(path), str(tmp_path / "t.yaml"), "y").text)
    assert tree["data"]["columns"]["n"]["type"] == "float32"
    assert tree["data"]["csv"]["missing"] == ["", "NA", "?"]


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_na_is_missing_also_if_all_cells_are_quoted(tmp_path, quoting):
    rows = [
        {
            "size": "NA" if n % 9 == 0 else f"{n / 7:.3f}",
            "word": ("NA", "a", "b")[n % 3],
            "y": n % 2,
        }
        for n in range(400)
    ]
    table = tmp_path / "t.csv"
    made, tree, loaded = _made(table, rows, functools.partial(_csv, quoting=quoting))
    columns = tree["data"]["columns"]
    assert columns["size"]["type"] == "float32"
    assert [columns[n].get("missing") for n in rows[0]] == ["allow", "allow", None]
    assert tree["data"].get("csv") == ({"quoted_missing": True} if quoting else None)
    (said,) = [line for line in made.remarks if "'word'" in line]
    instead = "take it out of data.csv.missing" if quoting else "put it in quotes in the file"
    assert said.startswith("'NA' is taken for missing in 134 of 400") and instead in said
    built = job.run(loaded, str(tmp_path))
    for name in ("size", "word"):
        expected = sum(row[name] == "NA" for row in rows)
        assert sum(of.columns[name].missing for of in built.statistics.values()) == expected


def test_in_quotes_it_is_a_value_where_other_cells_have_none(tmp_path):
    rows = [f'"{("NA", "DE", "FR")[n % 3]}",{n % 2}' for n in range(90)]
    made, tree, _ = _made(tmp_path / "t.csv", ["land,y", *rows], _lines)
    assert tree["data"]["columns"]["land"] == {"type": "string", "allowed": ["DE", "FR", "NA"]}
    assert "csv" not in tree["data"] and made.remarks == ()
