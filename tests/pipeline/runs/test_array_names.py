"""The names of an array's runs."""

from __future__ import annotations

from pipeline.runs import array_names


def test_names_in_a_line():
    assert array_names.list_names("r", [7, 0, 2, 1]) == "r-0 to r-2, r-7"


def test_the_indexes_of_an_array_among_other_runs():
    names = ["r-10", "r-2", "r", "r-a", "r-02", "r-1-2", "rr-3", "r-\N{SUPERSCRIPT TWO}", "a-r-4"]
    assert array_names.indexes_in("r", names) == [2, 10]
    assert array_names.indexes_in("x", names) == []
