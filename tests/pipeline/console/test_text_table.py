"""Rows lined up."""

from __future__ import annotations

import pytest

from pipeline.console import text_table

ROWS = [("name", "records", "note"), ("a", "1,234", ""), ("longer", "7", "x")]


def test_columns_are_as_wide_as_what_is_in_them():
    assert text_table.lines(ROWS) == [
        "name    records  note",
        "a       1,234",
        "longer  7        x",
    ]


def test_numbers_are_lined_up_at_the_right():
    assert text_table.lines(ROWS, right={1}) == [
        "name    records  note",
        "a         1,234",
        "longer        7  x",
    ]


def test_wide_characters_are_two_columns():
    assert text_table.lines([("日本", "7", "a"), ("abc", "🙂", ""), ("[b]", "", "c" * 90)]) == [
        "日本  7   a",
        "abc   🙂",
        "[b]       " + "c" * 90,
    ]
    assert text_table.lines([("日本", "a"), ("x", "b")], right={0}) == ["日本  a", "   x  b"]


def test_rows_of_another_length_are_a_bug():
    with pytest.raises(ValueError, match="zip"):
        text_table.lines([("a", "b"), ("c",)])
