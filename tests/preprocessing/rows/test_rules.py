"""Rules of values, and how an error puts them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from pipeline import config
from preprocessing.arrow import arrow_types
from preprocessing.rows import rules

_LIST = {"list": True, "max_items": 3}


def _broken(values, **column) -> dict[str, list[int]]:
    declared = config.Column(**column)
    array = pa.array(values, arrow_types.arrow_type(declared))
    return {
        reason: rows.nonzero()[0].tolist() for reason, rows in rules.find_broken(array, declared)
    }


@pytest.mark.parametrize(
    ("values", "column", "broken"),
    [
        ([0, 9, -1, None, 10], {"type": "int64", "min": 0, "max": 9}, {"range": [2, 4]}),
        ([2**60 + 1, 2**60 + 2], {"type": "int64", "min": 2**60 + 2}, {"range": [0]}),
        ([2**60 + 1, 2**60 + 2], {"type": "int64", "max": 2**60 + 1}, {"range": [1]}),
        ([2, 3, 4], {"type": "int64", "min": 2.5, "max": 3.5}, {"range": [0, 2]}),
        ([2, 3], {"type": "int64", "min": -math.inf, "max": 10**20}, {}),
        ([None, 1.0, math.nan, 0.0], {"type": "float32", "min": 0.5}, {"range": [2, 3]}),
        ([math.nan, None], {"type": "float32"}, {}),
        ([1, None], {"type": "int64", "max": 1}, {}),
        ([], {"type": "string", "max_length": 1, "allowed": ["a"]}, {}),
        ([], {"type": "int64", "shape": [2], "min": 1}, {}),
        ([b"\x05\x06", b"\x05\x09"], {"type": "uint8", "shape": [2], "max": 8}, {"range": [1]}),
        (
            ["", "ä", "ab", None, "abc"],
            {"type": "string", "min_length": 1, "max_length": 2},
            {"length": [0, 4]},
        ),
        (["a", None, "b"], {"type": "string", "allowed": ["a"]}, {"allowed": [2]}),
        ([1, 2, None], {"type": "int64", "allowed": [2, 3]}, {"allowed": [0]}),
        ([0.5, 1.5], {"type": "float32", "allowed": [0.5]}, {"allowed": [1]}),
        ([[1, 2], None, [1, 9]], {"type": "int64", "shape": [2], "max": 5}, {"range": [2]}),
        (
            [["a", "b"], None, ["a", "c"]],
            {"type": "string", "shape": [2], "allowed": ["a", "b"]},
            {"allowed": [2]},
        ),
        (
            [["a", "bb"], ["a", "b"]],
            {"type": "string", "shape": [2], "max_length": 1},
            {"length": [0]},
        ),
        (
            ["2013-01-31", "2020/05/01", None, "20200501", "2020-02-30", "2020-02-29 23:59", ""],
            {"type": "string", "dates": "iso"},
            {"date": [1, 3, 4, 6]},
        ),
        (
            ["1/31/2020 9:00 PM", "1/31/2020 9:00 PM", "13/1/2020", "4/31/2020", "2/29/2019"],
            {"type": "string", "dates": "m/d/y"},
            {"date": [2, 3, 4]},
        ),
        (["2019", "2019-13", "2019-02"], {"type": "string", "dates": "y-m"}, {"date": [0, 1]}),
        (["1623075642.5", "soon", "-3"], {"type": "string", "dates": "seconds"}, {"date": [1]}),
        ([None, None], {"type": "string", "dates": "iso"}, {}),
        ([], {"type": "string", "dates": "iso"}, {}),
        (
            [20200229, 20190229, None, -1, 99991231, 10101, 202001],
            {"type": "int64", "dates": "ymd"},
            {"date": [1, 3, 6]},
        ),
        (
            [["2013-01-31", "x"], None, ["2013-01-31", "2013-01-31"]],
            {"type": "string", "shape": [2], "dates": "iso"},
            {"date": [0]},
        ),
    ],
)
def test_rules(values, column, broken):
    assert _broken(values, **column) == broken


def test_a_slice_is_evaluated_on_its_own_rows():
    column = config.Column(type="string", shape=(2,), allowed=("a",))
    lists = pa.array([["b", "b"], ["a", "a"], ["a", "b"]], arrow_types.arrow_type(column))
    ((_, rows),) = rules.find_broken(lists.slice(1), column)
    assert rows.tolist() == [False, True]


@pytest.mark.parametrize(
    ("reason", "column", "text"),
    [
        ("missing", {"type": "float32"}, "is 'v', which means a missing value"),
        ("type", {"type": "int64"}, "is 'v', not int64"),
        ("type", {"type": "int64", "shape": [2]}, "is 'v', not int64 of [2]"),
        ("type", {"type": "int64", **_LIST}, "is 'v', not a list of int64"),
        ("overflow", {"type": "float32", **_LIST}, "is 'v', too large for a list of float32"),
        (
            "json",
            {"type": "int64", **_LIST, "separator": "json"},
            "is 'v', no JSON array of single values, such as [1, 2]",
        ),
        (
            "finite",
            {"type": "float32", **_LIST},
            "is 'v', not a finite number, which each item of a list must be",
        ),
        ("overflow", {"type": "float32"}, "is 'v', too large for float32"),
        ("encoding", {"type": "string"}, "is 'v', not UTF-8 text without NUL"),
        ("range", {"type": "int64", "min": 0, "max": 9}, "is v, allowed is 0 to 9"),
        (
            "date",
            {"type": "string", "dates": "d/m/y"},
            "is 'v', no day of the calendar in the form d/m/y, such as 31/01/2013",
        ),
        ("range", {"type": "int64", "min": 2}, "is v, allowed is 2 or more"),
        ("range", {"type": "int64", "min": 2**60 + 1}, f"is v, allowed is {2**60 + 1} or more"),
        ("range", {"type": "float32", "max": 0.5}, "is v, allowed is 0.5 or less"),
        ("length", {"type": "string", "max_length": 2}, "is 'v', allowed are 0 to 2 characters"),
        ("length", {"type": "string", "min_length": 2}, "is 'v', allowed are 2 characters or more"),
        ("allowed", {"type": "string", "allowed": ["a", "b"]}, "is 'v', not one of a, b"),
        (
            "allowed",
            {"type": "int64", "allowed": list(range(9))},
            "not one of 0, 1, 2, 3, 4, 5, 6, 7, ...",
        ),
    ],
)
def test_problems_in_words(reason, column, text):
    assert rules.describe_problem(reason, "v", config.Column(**column)).endswith(text)


def test_a_boolean_is_distinguished_from_a_text():
    column = config.Column(type="string", allowed=("no", "yes"))
    assert (
        rules.describe_problem("allowed", False, column)
        == "is the boolean False, not one of no, yes"
    )
