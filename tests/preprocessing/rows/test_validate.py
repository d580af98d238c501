"""Rows are sorted into good ones, dropped ones, and letters that say what and where."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pytest

from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.sources import base
from tests.preprocessing import tables

NUMBERS = np.array([2, 3, 5, 8])


def _enforce(columns=None, letters=(), **values) -> validate.Good:
    """Enforces four rows given as texts by column; others are good."""
    texts = {"id": "1234", "name": "abcd", "size": "1234", "label": "0101", **values}
    batch = pa.record_batch(
        {n: pa.array([v and v.encode() for v in vs], pa.binary()) for n, vs in texts.items()}
    )
    files = dict.fromkeys(texts, "in.csv")
    rows = base.Rows(batch, files=files, numbers=NUMBERS, letters=letters)
    declared = {name: {**tables.COLUMNS[name], **(columns or {}).get(name, {})} for name in texts}
    return validate.enforce(rows, tables.make_config("x", declared).data, "train")


def test_good_rows_pass():
    good = _enforce(name=["a", None, "c", "d"])
    assert good.batch.column("id").to_pylist() == [1, 2, 3, 4]
    assert good.batch.column("name").to_pylist() == ["a", None, "c", "d"]
    assert good.numbers is NUMBERS
    assert (good.letters, good.dropped, good.read) == ([], 0, 4)


def test_bad_rows_become_letters():
    good = _enforce(id=["1", "x", "3", "4"], size=["1", "y", "999", "4"], label=[*"010", None])
    assert [str(letter) for letter in good.letters] == [
        "'in.csv': row 3: column 'id' is 'x', not int64",
        "'in.csv': row 5: column 'size' is 999, allowed is 0 to 100",
        "'in.csv': row 8: column 'label' has no value",
    ]
    assert [(letter.reason, letter.value) for letter in good.letters] == [
        ("type", "x"),
        ("range", "999"),
        ("missing", None),
    ]
    assert good.numbers.tolist() == [2]
    assert good.batch.to_pylist() == [{"id": 1, "name": "a", "size": 1.0, "label": 0}]
    assert good.read == 4


def test_rows_are_dropped_on_purpose_unless_they_are_bad_anyway():
    columns = {"label": {"missing": "drop"}}
    good = _enforce(columns, label=["0", None, None, "1"], id=["1", "2", "x", "4"])
    assert good.dropped == 1 and [letter.row for letter in good.letters] == [5]
    assert good.numbers.tolist() == [2, 8]


_NAN = np.array([1.0, np.nan, np.nan, 4.0])


@pytest.mark.parametrize(
    "sizes",
    [
        pa.array([b"1", b"nan", b"NaN", b"4"]),
        pa.array(["1", "nan", "NaN", "4"]),
        pa.array(_NAN, pa.float32()),
        pa.array(_NAN),
        pa.array(_NAN.astype(np.float16)),
    ],
    ids=["csv", "jsonl", "tfrecord", "parquet", "half"],
)
@pytest.mark.parametrize("missing", ["reject", "drop", "allow"])
def test_nan_is_a_missing_value_in_every_source(sizes, missing):
    columns = {"size": {"type": "float32", "missing": missing}, "label": {"type": "int64"}}
    rows = base.Rows(pa.record_batch({"size": sizes, "label": [0, 1, 0, 1]}), 0)
    good = validate.enforce(rows, tables.make_config("x", columns).data, "train")
    left = {"allow": [1.0, None, None, 4.0]}.get(missing, [1.0, 4.0])
    assert good.batch.column("size").to_pylist() == left
    assert good.dropped == (2 if missing == "drop" else 0)
    assert [letter.reason for letter in good.letters] == ["missing"] * (
        4 - len(left) - good.dropped
    )
    for letter in good.letters:
        assert re.search("column 'size' is '?nan'?, which means a missing", str(letter), re.I)


@pytest.mark.parametrize("rules", [{}, {"missing": "allow"}, {"min": 0}, {"max": math.inf}])
def test_infinite_values_are_letters_unless_a_limit_is_infinite(rules):
    good = _enforce({"size": {"min": None, "max": None, **rules}}, size=["1", "inf", "-inf", "4"])
    allowed = rules.get("max") == math.inf
    assert good.batch.column("size").to_pylist() == [1.0, *([math.inf] if allowed else []), 4.0]
    first = "'-inf'" if allowed else "'inf'"
    assert f"column 'size' is {first}, not a finite number; " in str(good.letters[0])


def test_no_limit_makes_an_infinite_label_one_that_can_be_learned():
    good = _enforce({"label": {"type": "float32", "max": math.inf}}, label=["0", "inf", "1", "1"])
    (letter,) = good.letters
    assert letter.reason == "finite"
    assert str(letter).endswith(
        "column 'label' is 'inf', not a finite number; the label must be one: correct it, or leave "
        "it empty and set missing: drop"
    )


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ({}, [0]),
        ({"missing": "allow"}, [0, 1, 3]),
        ({"missing": "allow", "default": 0.0}, [0, 3]),
        ({"max": math.inf}, [0, 2]),
    ],
)
def test_items_of_arrays_are_finite(rules, left):
    columns = {"x": {"type": "float32", "shape": [2], **rules}, "label": {"type": "int64"}}
    x = [[1.0, 2.0], [1.0, math.nan], [1.0, math.inf], None]
    rows = base.Rows(pa.record_batch({"x": x, "label": [0, 1, 2, 3]}), 0)
    good = validate.enforce(rows, tables.make_config("x", columns).data, "train")
    assert good.batch.column("label").to_pylist() == left


def test_nan_that_stays_in_place_takes_no_default():
    columns = {
        "size": {"type": "float32", "missing": "allow", "default": 0.0},
        "label": {"type": "int64"},
    }
    rows = base.Rows(pa.record_batch({"size": [1.0, math.nan, None], "label": [0, 1, 2]}), 0)
    data = tables.make_config("x", columns).data
    assert not validate.enforce(rows, data, "train").letters
    in_place = data.model_copy(update={"in_place": True})
    assert [letter.row for letter in validate.enforce(rows, in_place, "train").letters] == [1]


def test_long_values_are_cut_and_bytes_are_readable():
    columns = {"name": {"max_length": 70}}
    bad = "y" * 10_000
    good = _enforce(columns, name=["a", bad, "c", "d"])
    assert good.letters[0].value == "y" * 64 + "... (10,000 characters)"
    rows = base.Rows(pa.record_batch({"name": [b"a\xff\0b"], "label": [b"1"]}), files={})
    data = tables.make_config("x", {n: tables.COLUMNS[n] for n in ("name", "label")}).data
    (letter,) = validate.enforce(rows, data, "train").letters
    assert letter.value == "a\\xff\0b" and letter.reason == "encoding"


def test_sensitive_values_are_never_shown():
    columns = {"name": {"sensitive": True, "max_length": 1}}
    torn = base.Letter("in.csv", 4, None, "columns", "9,secret", "has 2 columns")
    good = _enforce(columns, (torn,), name=["a", "secret", "c", "d"])
    assert [letter.value for letter in good.letters] == ["<redacted>", "<redacted>"]
    assert "secret" not in repr(good.letters)
    (kept,) = _enforce({}, (torn,)).letters
    assert kept.value == "9,secret"


@pytest.mark.parametrize(("pixels", "shown"), [(bytes([0, 0, 201, 202]), "201"), (bytes(4), "0")])
def test_of_an_image_only_the_value_that_is_wrong_is_shown(pixels, shown):
    bounds = {"max": 200} if shown == "201" else {"min": 1}
    columns = {"x": {"type": "uint8", "shape": [4], **bounds}, "label": {"type": "int64"}}
    batch = pa.record_batch({"x": pa.array([pixels], pa.binary(4)), "label": [1]})
    (letter,) = validate.enforce(
        base.Rows(batch, 100), tables.make_config("x", columns).data, "train"
    ).letters
    assert letter.value == shown and str(letter).startswith("'input': row 100: column 'x' is ")


LISTS = {
    "tags": {"type": "string", "list": True, "max_items": 2, "max_length": 3},
    "seen": {"type": "int64", "list": True, "max_items": 2, "on_longer": "truncate", "min": 0},
    "label": {"type": "int64"},
}


def _listed(*found, **seen):
    columns = {**LISTS, "seen": {**LISTS["seen"], **seen}}
    data = tables.make_config("x", columns).data
    arrays = [pa.array([row[n] for row in found]) for n in range(3)]
    return validate.enforce(base.Rows(pa.record_batch(arrays, list(LISTS))), data, "train")


def test_lists_that_are_too_long():
    good = _listed((["a"], [1, 2, 3], 0), (["a", "b", "c"], [1], 0), ([], [], 1))
    assert good.batch.to_pylist() == [
        {"tags": ["a"], "seen": [1, 2], "label": 0},
        {"tags": [], "seen": [], "label": 1},
    ]
    assert good.truncated == {"seen": 1}
    [letter] = good.letters
    assert (letter.row, letter.column, letter.reason) == (1, "tags", "items")
    assert letter.problem == (
        "is \"['a', 'b', 'c']\", allowed are 2 items; see max_items and on_longer"
    )
    assert letter.raw == {"tags": ["a", "b", "c"], "seen": [1], "label": 0}


def test_of_lists_that_are_too_long_the_last_items_may_stay():
    good = _listed((["a"], [1, 2, 3], 0), (["a"], [-2, 2, 3], 0), on_longer="keep_last")
    assert [row["seen"] for row in good.batch.to_pylist()] == [[2, 3], [2, 3]]
    assert good.truncated == {"seen": 2} and not good.letters


def test_lists_that_have_to_be_of_one_length():
    """Those before long ones are cut; a list with a bad item is at fault itself."""
    columns = {
        "dwell": {"type": "float32", "list": True, "max_items": 2, "same_length_as": "seen"},
        "seen": {"type": "int64", "list": True, "max_items": 2, "missing": "allow"},
        "label": {"type": "int64", "missing": "drop"},
    }
    for column in ("dwell", "seen"):
        columns[column]["on_longer"] = "keep_last"
    rows = [
        ([0.5, 1.5, 2.5], [1, 2, 3], 0),
        ([0.5, 1.5], [1, 2, 3], 0),
        ([], None, 0),
        ([0.5], None, 0),
        ([0.5], [], None),
        ([0.5], [1, -1], 0),
        ([], [1], 0),
    ]
    arrays = [pa.array([row[n] for row in rows]) for n in range(3)]
    batch = pa.record_batch(arrays, list(columns))
    good = validate.enforce(base.Rows(batch), tables.make_config("x", columns).data, "train")
    assert good.batch.to_pylist() == [
        {"dwell": [1.5, 2.5], "seen": [2, 3], "label": 0},
        {"dwell": [], "seen": None, "label": 0},
    ]
    assert [(one.row, one.column, one.reason) for one in good.letters] == [
        (1, "dwell", "lengths"),
        (3, "dwell", "lengths"),
        (5, "seen", "item"),
        (6, "dwell", "lengths"),
    ]
    assert good.letters[0].problem == "is '[0.5, 1.5]', and needs one item for each of 'seen'"
    assert good.letters[2].problem == (
        "is '[1, -1]', with an item -1, which stands for none; if it is an item, give the column "
        "another default"
    )
    assert good.dropped == 1


def test_rules_are_held_to_each_item():
    good = _listed((["a", "long"], [1], 0), (["a"], [3, -7], 0), (["a"], [3, 7, -7], 0))
    assert [(one.row, one.column, one.reason) for one in good.letters] == [
        (0, "tags", "length"),
        (1, "seen", "range"),
    ]
    assert good.truncated == {"seen": 1}  # what is cut off breaks no rule


@pytest.mark.parametrize("cut", [-1, None, 2**63, "x", ""])
def test_an_item_that_is_cut_off_need_not_be_one(cut):
    """Whether the file has arrays or texts; a kept one must be one."""
    items = [7, 2, cut]
    if isinstance(cut, str) or cut == 2**63:
        items = [item if item is None else str(item) for item in items]
    good = _listed((["a"], items, 0))
    assert good.batch["seen"].to_pylist() == [[7, 2]] and good.truncated == {"seen": 1}
    good = _listed((["a"], items[::-1], 0), on_longer="keep_last")
    assert good.batch["seen"].to_pylist() == [[2, 7]]
    [letter] = _listed((["a"], items[::-1], 0)).letters
    assert letter.column == "seen"


def test_texts_that_are_cut_off_need_not_be_items():
    declared = {
        **LISTS,
        "tags": {"type": "string", "list": True, "max_items": 2, "on_longer": "truncate"},
    }
    data = tables.make_config("x", declared).data
    texts = pa.array(["a|b|", "a|b|c\0", "a||b"])
    batch = pa.record_batch([texts, pa.array([[1]] * 3), pa.array([0] * 3)], list(LISTS))
    good = validate.enforce(base.Rows(batch), data, "train")
    assert good.batch["tags"].to_pylist() == [["a", "b"]] * 2
    assert [(letter.row, letter.reason) for letter in good.letters] == [(2, "item")]


def test_a_row_that_is_rejected_is_not_counted_as_truncated():
    assert _listed((["a", "b", "c"], [1, 2, 3], 0), (["a"], [1], 0)).truncated == {"seen": 0}


def test_an_item_that_opens_a_quote_is_at_fault():
    """Whether a separator is behind it or not."""
    columns = {
        "tags": {"type": "string", "list": True, "max_items": 9},
        "label": {"type": "int64"},
    }
    texts = ['a|"b|c"', 'a|"b', 'a|"b"']
    batch = pa.record_batch([pa.array(texts), pa.array([0, 0, 0])], list(columns))
    good = validate.enforce(base.Rows(batch), tables.make_config("x", columns).data, "train")
    assert [(one.row, one.reason) for one in good.letters] == [(0, "quotes"), (1, "quotes")]
    assert good.letters[1].problem == (
        "is 'a|\"b', with an item that opens a quote and does not close it: quotes keep no '|' "
        "together; see separator"
    )


def test_what_is_no_list_of_the_type_is_named():
    columns = {
        "seen": {"type": "int64", "list": True, "max_items": 9, "separator": "json"},
        "label": {"type": "int64"},
    }
    texts = ["[1, 2]", "[1, 'x']", "[1, [2]]", "[1.5]", "7"]
    batch = pa.record_batch([pa.array(texts), pa.array([0] * 5)], list(columns))
    good = validate.enforce(base.Rows(batch), tables.make_config("x", columns).data, "train")
    assert [(one.row, one.reason, one.problem) for one in good.letters] == [
        (1, "type", "is \"[1, 'x']\", not a list of int64"),
        (2, "json", "is '[1, [2]]', no JSON array of single values, such as [1, 2]"),
        (3, "type", "is '[1.5]', not a list of int64"),
        (4, "json", "is '7', no JSON array of single values, such as [1, 2]"),
    ]


def test_letters_show_numbers_with_the_marks_of_the_file(tmp_path):
    """A text with a point, which is no number of a file with a decimal comma, and others."""
    prices = {"type": "float32", "list": True, "max_items": 3, "separator": "|"}
    columns = {
        "count": {"type": "int64"},
        "size": {"type": "float32", "max": 9},
        "prices": prices,
        "name": {"type": "string", "max_length": 2},
    }
    rows = (
        "1.5;1,5;1;a",
        "1,5;1,5;1;a",
        "1;1.5;1;a",
        "1;1.009,5;1;a",
        "1;1;1,5|2.5;a",
        "1;1;1;1.5",
    )
    (tmp_path / "in.csv").write_text("\n".join(["count;size;prices;name", *rows, ""]))
    rules = {"delimiter": ";", "decimal": ",", "thousands": "."}
    data = tables.make_config(tmp_path / "in.csv", columns, label="count", csv=rules).data
    source = sources.choose(data)
    [found] = [part for chunk in source.plan("train") for part in source.read(chunk)]
    letters = validate.enforce(found, data, "train").letters
    values = ["1.5", "1,5", "1.5", "1009,5", "1,5|2.5", "1.5"]
    assert [letter.value for letter in letters] == values
    assert letters[0].problem == "is '1.5', not int64"
    assert letters[3].problem == "is 1009,5, allowed is 9 or less"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ({"type": "int64"}, "is '1.5', not int64"),
        ({"type": "float32", "max": 1}, "is 1.5, allowed is 1 or less"),
    ],
)
def test_letters_show_values_of_folders_as_their_names_have_them(tmp_path, kind, problem):
    (tmp_path / "size=1.5").mkdir()
    path = tmp_path / "size=1.5" / "a.csv"
    path.write_text("count;label\n1,5;0\n1;0\n")
    columns = {"count": {"type": "int64"}, "size": kind, "label": {"type": "int64"}}
    rules = {"delimiter": ";", "decimal": ","}
    data = tables.make_config(path, columns, csv=rules).data
    source = sources.choose(data)
    [found] = [part for chunk in source.plan("train") for part in source.read(chunk)]
    of_file, of_folder = validate.enforce(found, data, "train").letters
    assert (of_file.column, of_file.value) == ("count", "1,5")
    assert (of_folder.column, of_folder.problem) == ("size", problem)
