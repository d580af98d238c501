"""Numbers as people write them become numbers; what is ambiguous or wrong does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline import config, errors
from preprocessing.sources import csv_numbers
from tests.preprocessing import table_runs, tables


@pytest.mark.parametrize(
    ("rules", "given", "made"),
    [
        (
            {"thousands": ","},
            ["1,234", "-12,345,678.9", "1,23", "1.5", None],
            ["1234", "-12345678.9", "1,23", "1.5", None],
        ),
        ({"decimal": ","}, ["1,5", "-0,25", "1.5", "7"], ["1.5", "-0.25", "1,5", "7"]),
        (
            {"decimal": ",", "thousands": "."},
            ["1.234,5", "1.234", "1.23"],
            ["1234.5", "1234", "1,23"],
        ),
        ({"thousands": "'"}, ["1'000", "1'00"], ["1000", "1'00"]),
    ],
)
def test_texts_become_those_of_numbers(rules, given, made):
    array = pa.array([text and text.encode() for text in given], pa.binary())
    found = csv_numbers.plain(array, config.Csv(**rules)).to_pylist()
    assert [text and text.decode() for text in found] == made


@pytest.mark.parametrize(
    ("column", "delimiter", "form"),
    [
        (["1,5", "12,25", "7"], ";", {"decimal": ","}),
        (["1.234,5", "0,5"], ";", {"decimal": ",", "thousands": "."}),
        (["1,234", "99,999"], ",", {"thousands": ","}),
        (["1,234", "99,999"], ";", {"decimal": ","}),
        (["1,234.5", "3"], ";", {"thousands": ","}),
        (["1,234", "x"], ",", {}),
        (["1", "2"], ";", {}),
        ([], ";", {}),
    ],
)
def test_the_form_is_guessed_from_all_values(column, delimiter, form):
    assert csv_numbers.form([column, ["other"]], delimiter) == form


def test_columns_that_disagree_are_left_as_texts():
    assert csv_numbers.form([["1,5"], ["1,234.5"]], ";") == {}


def test_a_run_with_decimal_commas(tmp_path):
    (tmp_path / "in.csv").write_text(
        "id;name;size;label\n" + "".join(f"{i};a,b;{i % 90},5;1\n" for i in range(30)) + "x;a;1.5;1"
    )
    rules = {"delimiter": ";", "decimal": ","}
    wanted = tables.make_config(tmp_path / "in.csv", csv=rules, error_budget=1)
    made, folder, _ = table_runs.run(wanted, tmp_path)
    rows = table_runs.records(wanted, made, folder) + table_runs.records(
        wanted, made, folder, "eval"
    )
    assert sorted(row["size"] for row in rows) == [i + 0.5 for i in range(30)]
    assert {row["name"] for row in rows} == {b"a,b"}
    assert [letter["column"] for letter in table_runs.letters(folder)] == ["id"]


def test_separators_must_differ(tmp_path):
    with pytest.raises(errors.UsageError, match="decimal and thousands are both ','"):
        tables.make_config(tmp_path, csv={"decimal": ",", "thousands": ","})
