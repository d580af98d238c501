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
        ({"thousands": "'"}, ["1'000", "1'00", "1\u2019000"], ["1000", "1'00", "1000"]),
        ({"thousands": ","}, ["0,346", "-0,346", "0,346.5"], ["0,346", "-0,346", "0,346.5"]),
        (
            {"decimal": ",", "thousands": " "},
            ["1 234,5", "1\u00a0234", "1\u202f234\u202f567", "12 3"],
            ["1234.5", "1234", "1234567", "12 3"],
        ),
        (
            {"decimal": ",", "thousands": " "},
            ["1 234,5\u00a0", "\u2009-\u00a01\u00a0234", "\u22121,5", " 1,5"],
            ["1234.5", "-1234", "-1.5", " 1.5"],
        ),
    ],
)
def test_texts_become_those_of_numbers(rules, given, made):
    array = pa.array([text and text.encode() for text in given], pa.binary())
    found = csv_numbers.normalize(array, config.Csv(**rules)).to_pylist()
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
        (["0,346", "0,125"], ",", {"decimal": ","}),
        (["1,234"] * 300 + ["0,346"], ",", {"decimal": ","}),
        (["-0,346", "7"], ",", {"decimal": ","}),
        (["1,234", "1,234.5", "0,346"], ",", {}),
        (["0,5"] * 99 + ["abc"], ";", {"decimal": ","}),
        (["1'234'567", "12"], ";", {"thousands": "'"}),
        (["1\u202f234", "12"], ";", {"thousands": " "}),
        (["1 234,50", "12"], ",", {"decimal": ",", "thousands": " "}),
        (["1.5", "1e5", ".5"], ";", {}),
        (["1.234", "5.678"], ";", {}),
        (["10 20", "30 40"], ";", {}),
        (["1,5\u00a0", "\u22122,5"], ";", {"decimal": ","}),
        (["1", "2"], ";", {}),
        ([], ";", {}),
    ],
)
def test_the_form_is_guessed_from_all_values(column, delimiter, form):
    assert csv_numbers.detect_format([column, ["other"]], delimiter) == form


def test_columns_that_disagree_are_left_as_texts():
    assert csv_numbers.detect_format([["1,5"], ["1,234.5"]], ";") == {}


def test_a_column_that_is_sure_decides_for_one_that_is_not():
    assert csv_numbers.detect_format([["1,234"], ["0,5"]], ",") == {"decimal": ","}
    assert csv_numbers.detect_format([["1,234"], ["1,234.5"]], ";") == {"thousands": ","}
    assert csv_numbers.detect_format([["1,5"], ["2,5"], ["2.5"]], ",") == {"decimal": ","}


def test_what_may_be_a_decimal_mark_or_none():
    assert csv_numbers.may_be_groups(["1.234", "7"], ".")
    assert not csv_numbers.may_be_groups(["1.234", "0.346"], ".")
    assert not csv_numbers.may_be_groups(["1.234", "1.5"], ".")
    assert not csv_numbers.may_be_groups(["7"], ".")


@pytest.mark.parametrize("text", ["1", "-1.5", "1,5", "1.234,5", "1'000", "1 000,5", "1e5", ".5"])
def test_numbers_in_any_form(text):
    assert csv_numbers.is_number(text)
    assert not csv_numbers.is_number(f"{text} x")


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
