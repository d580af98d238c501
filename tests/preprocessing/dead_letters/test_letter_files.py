"""Letters are kept in order and counted, and the budget decides."""

from __future__ import annotations

import json
import re

import pytest

from pipeline import config, errors
from preprocessing.dead_letters import letter_files
from preprocessing.shards import record_folders
from preprocessing.sources.base import Letter
from tests.preprocessing import tables

TALLY = letter_files.count_letters(
    [Letter("f", 1, "x", "type", "v", "is v")] * 3, read=100, dropped=7
)


def _letter(row: int, column: str | None = "x") -> Letter:
    return Letter("in.csv", row, column, "type", f"v{row}", "is bad")


def test_gathered_in_the_order_of_the_raw_rows(tmp_path):
    folders = record_folders.prepare(str(tmp_path), "0123456789ab")
    for origin, rows in (
        ("train-000001-0000", [9]),
        ("train-000000-0001", [5, 6]),
        ("test-000000-0000", [1]),
    ):
        letter_files.write(folders.temporary, origin, [_letter(row) for row in rows])
    letter_files.write(folders.temporary, "train-000000-0000", [])
    for origin in ("train-000000", "train-000001", "train-in-eval-00000"):
        letter_files.write_tally(folders.temporary, origin, TALLY)
    assert letter_files.count_letters_written(folders.temporary) == 4
    tallies = letter_files.gather(folders)
    assert tallies["train"].read == 300 and tallies["train"].dropped == 21
    assert tallies["train"].bad == {("x", "type"): 9}
    kept = (tmp_path / "0123456789ab" / "dead_letter" / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in kept] == [5, 6, 9]
    assert json.loads(kept[0]) == {
        "file": "in.csv",
        "row": 5,
        "column": "x",
        "reason": "type",
        "value": "v5",
        "problem": "is bad",
        "raw": None,
        "of": None,
    }


def test_without_letters_there_is_no_folder(tmp_path):
    folders = record_folders.prepare(str(tmp_path), "0123456789ab")
    assert letter_files.gather(folders) == {}
    assert not (tmp_path / "0123456789ab" / "dead_letter").exists()


def test_the_most_frequent_problems_come_first():
    letters = [_letter(1, "b"), _letter(2, "a"), _letter(3, "b"), _letter(4, None)]
    assert letter_files.count_letters(letters).format_lines() == [
        "2 x b type",
        "1 x type",
        "1 x a type",
    ]


@pytest.mark.parametrize(
    ("budget", "allowed"), [(0, 0), (2, 2), (3, None), (0.02, 2), (0.03, None), (1000, None)]
)
def test_budgets(budget, allowed):
    data = tables.make_config("in.csv", error_budget=budget).data
    if allowed is None:
        letter_files.check_budget({"train": TALLY}, data, "folder")
        return
    with pytest.raises(
        errors.DataError,
        match=rf"3 of 100 rows are bad, data.error_budget {budget} allows {allowed}: 3 x x type\. "
        "They are in 'folder', each with its reason",
    ):
        letter_files.check_budget({"train": TALLY}, data, "folder")


@pytest.mark.parametrize(
    ("budget", "allowed"), [(0, 0), (3, 3), (0.01, 3), (4, None), (0.02, None)]
)
def test_a_budget_is_compared_with_the_letters_of_a_build_again(tmp_path, budget, allowed):
    folders = record_folders.prepare(str(tmp_path), "0123456789ab")
    data = tables.make_config("in.csv", error_budget=budget).data
    letter_files.check_again(data, folders.dead_letters)
    for origin, row in (("train-000000", 1), ("eval-000000", 2)):
        letter_files.write(folders.temporary, origin, [_letter(row)])
        tally = letter_files.count_letters([_letter(row)] * 2, 150, dropped=50)
        tally.add_undated({"day": (1, "secret")})
        letter_files.write_tally(folders.temporary, origin, tally)
    letter_files.gather(folders)
    (kept,) = (tmp_path / "0123456789ab" / "dead_letter").glob("*.json")
    assert "secret" not in kept.read_text()
    if allowed is None:
        letter_files.check_again(data, folders.dead_letters)
        return
    message = f"4 of 300 rows are bad, data.error_budget {budget} allows {allowed}: 4 x x type. "
    with pytest.raises(errors.DataError, match=re.escape(message)):
        letter_files.check_again(data, folders.dead_letters)


def test_nothing_left():
    data = tables.make_config("in.csv", error_budget=0.9).data
    with pytest.raises(errors.DataError, match=r"data.inputs.train \(in.csv\): no rows"):
        letter_files.check_budget({}, data, "folder")
    tally = letter_files.Tally(3, 2, letter_files.count_letters([_letter(1)]).bad)
    with pytest.raises(errors.DataError, match="none of 3 rows is left: 2 dropped, 1 bad"):
        letter_files.check_budget({"train": tally}, data, "folder")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("y", "no value in 'y' (data.columns.y.missing: drop)"),
        ("yz", "no value in 'y' or 'z' (data.columns.<column>.missing: drop)"),
        (
            "abcde",
            "no value in 'a' or 'b' or 'c' or 2 more columns (data.columns.<column>.missing: drop)",
        ),
    ],
)
def test_rows_that_are_dropped_name_the_key_that_drops_them(names, said):
    dropping = {name: config.Column(type="int64", missing="drop") for name in names}
    columns = {"x": config.Column(type="int64", missing="allow"), **dropping}
    assert letter_files.explain_drops(columns) == said


def test_nothing_left_as_all_rows_are_dropped():
    columns = {"x": {"type": "float32"}, "label": {"type": "int64", "missing": "drop"}}
    data = tables.make_config("in.csv", columns).data
    message = (
        r"none of 3 rows is left: 3 dropped, 0 bad\. Dropped were those with no value in 'label'"
    )
    with pytest.raises(errors.DataError, match=message):
        letter_files.check_budget({"train": letter_files.Tally(3, 3)}, data, "folder")


def test_the_first_bad_row_says_how_to_allow_some():
    letter = Letter("in.csv", 7, None, "columns", "1", "has 1 value for 2 columns")
    data = tables.make_config("in.csv").data
    assert str(letter_files.build_error(letter, data)) == (
        "'in.csv': row 7: has 1 value for 2 columns. To leave out bad rows, up to 1 % of all: "
        'SET="data.error_budget=0.01"'
    )
    in_place = data.model_copy(update={"in_place": True})
    assert str(letter_files.build_error(letter, in_place)) == str(letter)


def test_collected_wherever_they_are_wanted(tmp_path):
    for origin, row in (("test-000001-0000", 9), ("test-000000-0000", 4)):
        letter_files.write(str(tmp_path), origin, [_letter(row)])
        letter_files.write_tally(str(tmp_path), origin, TALLY)
    target = tmp_path / "new" / "rows.jsonl"
    tallies = letter_files.collect(str(tmp_path), lambda split: str(target))
    assert tallies["test"].read == 200
    assert [json.loads(line)["row"] for line in target.read_text().splitlines()] == [4, 9]
