"""Rows count once, however many of their items are bad."""

from __future__ import annotations

import pyarrow as pa

from preprocessing.schema_inference import bad_texts
from tests.preprocessing.schema_inference.surveyed import survey_values


def test_rows_of_single_texts_and_of_lists():
    found = bad_texts.BadTexts()
    found.see(pa.array([b"a", b"\xff", b"a\0", b"\xff"]), as_json=False)
    found.see(pa.array([[b"\xff", b"a\0", b"a"], [b"b"], None, []]), as_json=False)
    found.see(pa.array([[1.5, float("inf")]]), as_json=False)
    assert (found.rows, found.escaped, found.of_bytes) == (4, 0, 4)
    found.see(pa.array([["a\0", "b\0"], ["b"]]), as_json=True)
    assert (found.rows, found.escaped, found.of_bytes) == (5, 1, 4)


def test_texts_that_are_cut():
    found = bad_texts.BadTexts()
    cut = found.cut(pa.array([b"a|b", None, b"\xff|a", b""]), "|")
    assert cut.to_pylist() == [[b"a", b"b"], []] and found.rows == 1
    assert found.cut(pa.array(['["a", "\\ud83d"]']), "json").to_pylist() == [
        [b"a", b"\xed\xa0\xbd"]
    ]


def test_all_rows_count_though_only_some_different_values_are_looked_at():
    found = survey_values([])
    for start in range(0, 200, 50):
        found.see(pa.array([b"%d\xff" % n for n in range(start, start + 50)] + [b"a"]))
    assert found.kind == "string" and found.bad.rows == 200
