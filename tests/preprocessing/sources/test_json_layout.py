"""Files of JSON that are no lines are refused, with what makes lines of them."""

from __future__ import annotations

import json

import pytest

from pipeline import errors
from preprocessing.sources import json_layout

ROWS = [{"a": 1, "b": [1, 2], "c": {"d": "}"}}, {"a": 2}]


def _refused(text, path="x.json", **how):
    with pytest.raises(errors.DataError) as refused:
        json_layout.refuse(text.encode(), path, **how)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_arrays_and_objects_that_hold_the_rows(indent):
    array = json.dumps(ROWS, indent=indent)
    for name in ("x.json", "x", "x.txt"):
        assert "is one JSON array; source jsonl reads one object a line (jq -c '.[]'" in _refused(
            array, name
        )
    held = json.dumps({"count": 2, "by": "me, {}", "data": ROWS}, indent=indent)
    assert "is one JSON object, with rows in 'data'; source" in _refused(held)
    assert "(jq -c '.data[]' makes these)" in _refused(held)
    quoted = json.dumps({"my rows": ROWS}, indent=indent)
    assert """jq -c '.["my rows"][]'""" in _refused(quoted)


def test_objects_of_several_lines():
    for text in (json.dumps(ROWS[0], indent=2), "\n".join(json.dumps(r, indent=1) for r in ROWS)):
        found = _refused(text)
        assert "has JSON objects of several lines each; source jsonl reads one object a" in found


def test_a_file_that_is_cut_off_is_known_by_its_beginning():
    assert "'data'" in _refused(json.dumps({"data": ROWS * 99}, indent=2)[:200])


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n",
        '{"a": 1}\n{"a": 2}\n',
        '{"a": [{"b": 1}]}\n{"a": []}\n',
        '{"a": tr\n{"a": 1}\n',  # a damaged line is a dead letter
        "",
    ],
)
def test_all_else_is_not_refused(text):
    json_layout.refuse(text.encode(), "x.json")


def test_one_row_to_predict_for_may_hold_a_list_of_objects():
    one = '{"a": 1, "items": [{"b": 1}]}\n'
    json_layout.refuse(one.encode(), "x.json", one_row=True)
    assert "rows in 'items'" in _refused(one)


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a": 1}\n', "x", True),
        (' \n{"a": 1}\n', "x.txt", True),
        ("a,b\n1,2\n", "x.json", False),
        ('{"a": 1}\n', "x.csv", False),
        ('{"a": 1}\n', "X.TSV.GZ", False),
        ('[{"a": 1}]', "x.csv.zip", False),
    ],
)
def test_lines_are_distinguished_from_csv(text, path, found):
    assert json_layout.is_lines(text.encode(), path) is found


@pytest.mark.parametrize("path", ["x.json", "x.json.gz", "x.jsonl.zip", "x.ndjson.gz"])
def test_an_array_of_single_values_is_known_by_the_name_of_its_file(path):
    assert "is one JSON array" in _refused("[1, 2]\n", path)
    assert not json_layout.is_lines(b"[1, 2]\n", "x.txt")


def test_other_json_is_refused_where_lines_are_looked_for():
    with pytest.raises(errors.DataError, match="is one JSON array"):
        json_layout.is_lines(b'[{"a": 1}]', "x")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"a": %s},', "has a comma behind the object; remove it from each line"),
        ("[%s]", "is JSON, but no object"),
        ('{"a": %s', "cannot be read as JSON: expecting ',' delimiter at character 5008"),
    ],
)
def test_a_number_of_thousands_of_digits_is_json(line, problem):
    """Which Python refuses to read, with advice for who writes programs."""
    text = (line % ("9" * 5001)).encode()
    assert json_layout.explain_no_object(text).startswith(problem)
