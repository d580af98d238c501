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
        # Behind the decimal mark is no separator.
        ({"thousands": ","}, ["1,234.5,6", "1,234."], ["1,234.5,6", "1234."]),
        (
            {"decimal": ",", "thousands": "."},
            ["1.234,5.6", "1.234,5|2.5"],
            ["1,234.5,6", "1,234.5|2,5"],
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
    ("separator", "rules", "given", "made"),
    [
        (
            "|",
            {"decimal": ",", "thousands": "."},
            ["1.000,5|2", "2|1.000,5", "1.000|2,5", "1.000,5|2.5", "", "|1.000", None],
            ["1000.5|2", "2|1000.5", "1000|2.5", "1000.5|2,5", "", "|1000", None],
        ),
        # Whole numbers have no decimal mark.
        (",", {"decimal": ","}, ["1,2,30", "1.5,2"], ["1,2,30", "1.5,2"]),
        (".", {"decimal": ","}, ["1.2", "1,0.2"], ["1.2", "1,0.2"]),
        (";", {"thousands": ","}, ["1,500;2", "1;2,500"], ["1500;2", "1;2500"]),
    ],
)
def test_each_item_of_a_list_is_a_number(separator, rules, given, made):
    array = pa.array(given, pa.string()).cast(pa.binary())
    found = csv_numbers.normalize_lists(array, config.Csv(**rules), separator)
    assert found.cast(pa.string()).to_pylist() == made


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


def test_a_run_with_lists_of_decimal_commas(tmp_path):
    """A list that is one number by the marks of the file becomes no other number."""
    lines = ["1;1.000,5|2;[1.5, 2];1", "2;2|1.000;[1,2];1", "3;1.000,5|2.5;[3];1", "4;;[];1"]
    lines += [f"{i};7,5;[];0" for i in range(5, 30)]
    (tmp_path / "in.csv").write_text("id;seconds;array;label\n" + "\n".join(lines) + "\n")
    listed = {"type": "float32", "list": True, "max_items": 3, "missing": "allow"}
    columns = {**tables.COLUMNS, "seconds": listed, "array": {**listed, "separator": "json"}}
    for name in ("name", "size"):
        del columns[name]
    wanted = tables.make_config(
        tmp_path / "in.csv",
        columns,
        csv={"delimiter": ";", "decimal": ",", "thousands": "."},
        error_budget=1,
        split={"eval": 0},
    )
    made, folder, _ = table_runs.run(wanted, tmp_path)
    rows = {row["id"]: row for row in table_runs.records(wanted, made, folder)}
    found = {n: [_drop_nan(row["seconds"]), _drop_nan(row["array"])] for n, row in rows.items()}
    assert found[1] == [[1000.5, 2.0], [1.5, 2.0]]
    assert found[2] == [[2.0, 1000.0], [1.0, 2.0]]
    assert found[5] == [[7.5], []]
    (letter,) = table_runs.letters(folder)
    assert (letter["row"], letter["column"], letter["reason"]) == (4, "seconds", "type")


def _drop_nan(padded):
    return [value for value in padded if value == value]


def test_separators_must_differ(tmp_path):
    with pytest.raises(errors.UsageError, match="decimal and thousands are both ','"):
        tables.make_config(tmp_path, csv={"decimal": ",", "thousands": ","})
