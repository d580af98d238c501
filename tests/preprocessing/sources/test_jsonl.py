"""JSON lines give rows, and lines that do not give letters."""

from __future__ import annotations

import gzip
import json
import math

import hypothesis
import pytest
from hypothesis import strategies as st

from pipeline import errors
from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.sources import base
from tests.preprocessing import tables

LISTS = {
    "pair": {"type": "float32", "shape": [2]},
    "words": {"type": "string", "shape": [2], "missing": "allow"},
    "label": {"type": "int64"},
}


def _source(folder, columns=None, sizes=base.SIZES) -> base.Source:
    data = tables.make_config(folder / "*.jsonl", columns, source="jsonl").data
    return sources.choose(data, sizes)


def _enforced(folder, content: bytes, columns=None, **sizes) -> list[validate.Good]:
    (folder / "in.jsonl").write_bytes(content)
    source = _source(folder, columns, **sizes)
    found = [rows for chunk in source.plan("train") for rows in source.read(chunk)]
    return [validate.enforce(rows, source.data, "train") for rows in found]


def _line(number: int, **values) -> bytes:
    row = {"id": number, "name": f"n{number}", "size": number % 9 / 2, "label": 1, "more": [1]}
    return json.dumps({**row, **values}).encode() + b"\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_rows(tmp_path, pack):
    content = _line(0) + b"\r\n" + _line(1, name=None, size=7) + b'{"label": 0, "id": 2}'
    (good,) = [part for part in _enforced(tmp_path, pack(content)) if part.read > 1] or [None]
    assert good.batch.to_pylist()[:2] == [
        {"id": 0, "name": "n0", "size": 0.0, "label": 1},
        {"id": 1, "name": None, "size": 7.0, "label": 1},
    ]
    assert good.numbers.tolist()[:2] == [1, 2]


def test_a_last_line_without_a_newline(tmp_path):
    found = _enforced(tmp_path, _line(0) + b'{"label": 0, "id": 2}')
    rows = [row for part in found for row in part.batch.to_pylist()]
    assert rows[1] == {"id": 2, "name": None, "size": None, "label": 0}


def test_lists(tmp_path):
    lines = [
        {"pair": [1, 2.5], "words": ["a", "b"], "label": 0},
        {"pair": [1], "label": 0},
        {"pair": [1, 2], "words": None, "label": 1},
    ]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    (good,) = _enforced(tmp_path, content, LISTS)
    assert good.batch.column("pair").to_pylist() == [[1, 2.5], [1, 2]]
    assert good.batch.column("words").to_pylist() == [["a", "b"], None]
    assert str(good.letters[0]).endswith("row 2: column 'pair' is '[1.0]', not float32 of [2]")


def test_bad_lines_become_letters(tmp_path):
    content = b"".join(
        [
            _line(0),
            b"nonsense\n",
            _line(2, id="x"),
            _line(3, size=900),
            b'{"id": 4, "name": "\xff", "label": 1}\n',
            b'{"id": 5, "label": 1} {"id": 6, "label": 1}\n',
            b"[1, 2]\n",
            _line(7),
            _line(8, label=None),
        ]
    )
    (good,) = _enforced(tmp_path, content)
    assert [row["id"] for row in good.batch.to_pylist()] == [0, 7]
    assert [(letter.row, letter.column, letter.reason) for letter in good.letters] == [
        (2, None, "json"),
        (3, "id", "type"),
        (4, "size", "range"),
        (5, "name", "encoding"),
        (6, None, "json"),
        (7, None, "json"),
        (9, "label", "missing"),
    ]
    assert str(good.letters[0]).endswith("row 2: is not one JSON object")
    assert str(good.letters[1]).endswith("column 'id' has a string, not an int64")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"id": 1, "x": 2, "id": 3}', "has the key 'id' twice"),
        (b'{"name": "\\ud800"}', "has one half of a surrogate pair, which is not text"),
    ],
)
def test_objects_that_say_nothing_certain(tmp_path, line, problem):
    (good,) = _enforced(tmp_path, b"\n".join([_line(0), line, b""]))
    assert [letter.problem for letter in good.letters] == [problem]


def test_cut_anywhere_the_rows_are_the_same(tmp_path):
    content = b"".join(_line(i, id="x" if i % 17 == 5 else i) for i in range(100))
    (whole,) = _enforced(tmp_path, content)
    parts = _enforced(tmp_path, content, sizes=base.Sizes(300, 1000))
    assert len(parts) > 10
    assert [n for part in parts for n in part.numbers.tolist()] == whole.numbers.tolist()
    assert [x for part in parts for x in part.letters] == whole.letters


_MANY = "9" * 400
_LARGE = {
    "id": {"type": "int64"},
    "x": {"type": "float32", "missing": "allow", "min": -math.inf, "max": math.inf},
    "xs": {"type": "float32", "list": True, "max_items": 5, "missing": "allow"},
    "name": {"type": "string", "missing": "allow"},
    "label": {"type": "int64"},
}


@pytest.mark.parametrize(
    ("member", "column", "problem"),
    [
        ('"x": 1e400', "x", "has a number that is too large for float32"),
        ('"x": -1E+309', "x", "has a number that is too large for float32"),
        ('"x": 9e308', "x", "has a number that is too large for float32"),
        (f'"x": {_MANY}', "x", "has a number that is too large for float32"),
        (f'"x": -{_MANY}.5', "x", "has a number that is too large for float32"),
        ('"xs": [1, 1e400]', "xs", "has a number as item 2 that is too large for float32"),
        (f'"xs": [{_MANY}, 2]', "xs", "has a number as item 1 that is too large for float32"),
        ('"more": 1e400, "x": 1e400', "x", "has a number that is too large for float32"),
        ('"more": 1e400, "xs": 1e400', "xs", "has a number, not a list of float32"),
        ('"name": 1e400', "name", "has a number, not a string"),
        ('"x": 1e400,', None, "is not one JSON object"),
    ],
)
def test_numbers_beyond_double(tmp_path, member, column, problem):
    """In any place among other lines; a number beyond float32 alone has the same reason."""
    line = f'{{"id": 7, {member}, "label": 1}}'.encode()
    content = b"\n".join([_line(0), b'{"id": 1, "x": Infinity, "label": 0}', line, _line(3)])
    for rows in (content + b"\n", line + b"\n"):
        (good,) = _enforced(tmp_path, rows, _LARGE)
        [letter] = good.letters
        assert (letter.column, letter.problem) == (column, problem)
        reason = "overflow" if "too large" in problem else "type" if column else "json"
        assert letter.reason == reason
    (good,) = _enforced(tmp_path, content + b"\n", _LARGE)
    assert [row["id"] for row in good.batch.to_pylist()] == [0, 1, 3]


@pytest.mark.parametrize(
    "member",
    [
        '"more": 1e400',
        '"more": -9e308',
        f'"more": {_MANY}',
        '"more": [1, {"x": 1e400, "y": [-1E999]}, "1e400"]',
        '"\\u006dore": 1e400, "more2": 2',
        f'"name": "1e400 {_MANY}"',
        f'"more": {{"x": "\\"1e400", "y": 1e400}}, "name": {_MANY}',
    ],
)
def test_numbers_beyond_double_that_are_not_read(tmp_path, member):
    line = f'{{"id": 7, "x": -Infinity, {member}, "label": 1}}'.encode()
    columns = {name: rule for name, rule in _LARGE.items() if name != "xs"}
    (good,) = _enforced(tmp_path, line + b"\n" + _line(1), columns)
    assert not good.letters
    assert [(row["id"], row["x"]) for row in good.batch.to_pylist()] == [(7, -math.inf), (1, None)]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_LINE = st.one_of(
    st.fixed_dictionaries(
        {"id": _JSON, "label": _JSON}, optional={"name": _JSON, "size": _JSON}
    ).map(lambda row: json.dumps(row).encode()),
    st.binary(max_size=12),
    st.integers(0, 9).map(lambda i: _line(i).strip()),
)


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.lists(_LINE, min_size=1, max_size=8))
def test_whatever_the_lines_are_every_row_is_accounted_for(tmp_path, found):
    content = b"\n".join(found)
    hypothesis.assume(not content.startswith((b"\x1f\x8b", b"PK")))  # gz and zip
    rows = [row for row in content.replace(b"\r", b"\n").split(b"\n") if row]
    parts = _enforced(tmp_path, content)
    assert sum(part.read for part in parts) == len(rows)


@pytest.mark.parametrize("kind", [{"type": "uint8", "shape": [2]}, {"type": "image"}])
def test_pixels_are_no_json(tmp_path, kind):
    columns = {"x": kind, "label": {"type": "int64"}}
    with pytest.raises(
        errors.UsageError, match=f"data.columns.x: source jsonl has no {kind['type']}"
    ):
        _source(tmp_path, columns)


def test_numbers_that_are_no_whole_ones_are_of_another_type(tmp_path):
    """They are JSON, and the letter says of which column they are."""
    columns = {"codes": {"type": "int64", "shape": [2], "missing": "allow"}, **tables.COLUMNS}
    content = _line(0) + _line(1, size=1.5, label=1.5) + _line(2, size=1.5, label=2**63)
    (good,) = _enforced(tmp_path, content + _line(3, codes=[7, 1.5], label=0), columns)
    assert good.batch.num_rows == 1
    assert [str(letter).partition("row ")[2] for letter in good.letters] == [
        "2: column 'label' has a number that is not an int64",
        "3: column 'label' has a number that is not an int64",
        "4: column 'codes' has a number as item 2 that is not an int64",
    ]


def test_an_exponent_makes_no_int64_alone_or_in_a_list(tmp_path):
    """As in CSV (`cast.convert`); a point that only zeros follow does not matter."""
    codes = {"type": "int64", "list": True, "max_items": 2, "missing": "allow"}
    lines = [
        b'{"id": 100.0, "codes": [100.0], "label": 1}',
        b'{"id": 1e2, "label": 1}',
        b'{"id": 1, "codes": [1.0E+2], "label": 1}',
    ]
    columns = {**tables.COLUMNS, "codes": codes}
    (good,) = _enforced(tmp_path, b"\n".join([*lines, b""]), columns)
    [row] = good.batch.to_pylist()
    assert (row["id"], row["codes"]) == (100, [100])
    assert [(x.column, x.problem) for x in good.letters] == [
        ("id", "has a number with an exponent, which is not an int64; write its digits"),
        (
            "codes",
            "has a number with an exponent as item 1, which is not an int64; write its digits",
        ),
    ]


def test_numbers_since_1970_have_decimals_in_columns_of_text(tmp_path):
    """Of other columns of text they are another type: ids have none."""
    columns = {
        "ts": {"type": "string", "dates": "seconds"},
        "uid": {"type": "string"},
        "label": {"type": "int64"},
    }
    lines = [
        '{"ts": 1623075642.512, "uid": 7, "label": 0}',
        '{"ts": 1.623075642e+09 , "uid": "a", "label": 0}',
        '{"label": 1, "uid": "\\"ts\\": 1.5", "ts":"1623075642"}',
        '{"ts": 1623075642.5, "uid": 7.5, "label": 1}',
    ]
    (good,) = _enforced(tmp_path, "\n".join([*lines, ""]).encode(), columns)
    assert good.batch.column("ts").to_pylist() == [
        "1623075642.512",
        "1.623075642e+09",
        "1623075642",
    ]
    assert ["'uid'" in str(letter) for letter in good.letters] == [True]


def test_whole_numbers_are_what_they_are_written_as(tmp_path):
    """In columns of text they are ids, of any length; gaps make pandas write ids with a point."""
    columns = {
        "uid": {"type": "string"},
        "\u00fcid": {"type": "string", "shape": [2]},
        "gap": {"type": "int64"},
        "pair": {"type": "int64", "shape": [2]},
        "label": {"type": "int64"},
    }
    lines = [
        '{"uid": 18446744073709551615, "\u00fcid": [1, -30000000000000000000], '
        '"gap": 9007199254740993.0, "pair": [1.0,2], "label": 0, "other": {"uid": 1}}',
        '{"label": 0, "uid":7,"\\u00fcid": ["x", "y"], "gap": 3, "pair": [-5.00 ,6], "other": "5"}',
        '{"uid": "\\"uid\\": 5, [6.0]", "\u00fcid": ["[1.0,", "2"], '
        '"gap": 1, "pair": [1, 2], "label": 1}',
        '{"uid": 1.5, "\u00fcid": ["a", "b"], "gap": 1, "pair": [1, 2], "label": 1}',
        '{"uid": 007, "\u00fcid": ["a", "b"], "gap": 1, "pair": [1, 2], "label": 1}',
    ]
    (good,) = _enforced(tmp_path, "\n".join([*lines, ""]).encode(), columns)
    assert good.batch.to_pylist() == [
        {
            "uid": "18446744073709551615",
            "\u00fcid": ["1", "-30000000000000000000"],
            "gap": 2**53 + 1,
            "pair": [1, 2],
            "label": 0,
        },
        {"uid": "7", "\u00fcid": ["x", "y"], "gap": 3, "pair": [-5, 6], "label": 0},
        {
            "uid": '"uid": 5, [6.0]',
            "\u00fcid": ["[1.0,", "2"],
            "gap": 1,
            "pair": [1, 2],
            "label": 1,
        },
    ]
    assert [(x.row, x.column, x.reason) for x in good.letters] == [
        (4, "uid", "type"),
        (5, "uid", "type"),
    ]


def test_a_list_in_which_a_value_is_missing(tmp_path):
    (good,) = _enforced(tmp_path, b'{"pair": [1, null], "label": 0}\n{"label": 1}\n', LISTS)
    assert [str(letter).partition("row ")[2] for letter in good.letters] == [
        "1: column 'pair' is '[1.0, None]', not float32 of [2]",
        "2: column 'pair' has no value",
    ]


@pytest.mark.parametrize("null", [b"null", b"  null", b"\tnull", b"null {}"])
@pytest.mark.parametrize("place", [0, 1])
def test_rows_that_are_just_null(tmp_path, null, place):
    """As the first row they end pyarrow's process, as a later one they are an object to it."""
    rows = [_line(0).strip(), b'{"id": 1, "name": null, "label": 0}']
    rows.insert(place, null)
    (good,) = _enforced(tmp_path, b"\n".join(rows) + b"\n")
    assert [(letter.row, letter.reason) for letter in good.letters] == [(place + 1, "json")]
    assert good.batch.num_rows == 2


def test_true_and_false_are_one_and_zero(tmp_path):
    """Whatever stands in the lines before; a text is neither."""
    flags: list[object] = [True, False, None, 1, 0, True, "true"]
    content = b"".join(_line(n, label=flag) for n, flag in enumerate(flags))
    columns = {**tables.COLUMNS, "label": {"type": "int64", "missing": "allow", "default": 2}}
    (good,) = _enforced(tmp_path, content, columns)
    assert good.batch.column("label").to_pylist() == [1, 0, None, 1, 0, 1]
    assert [letter.column for letter in good.letters] == ["label"]
    columns = {**tables.COLUMNS, "on (y/n)": {"type": "int64"}}
    content = _line(0, **{"on (y/n)": True}) + _line(1, **{"on (y/n)": "x"})
    (named,) = _enforced(tmp_path, content, columns)
    assert named.batch.column("on (y/n)").to_pylist() == [1]
    assert [letter.column for letter in named.letters] == ["on (y/n)"]
    (alone,) = _enforced(tmp_path, _line(0, label=True, size=False) + _line(1, label=False))
    assert alone.batch.column("label").to_pylist() == [1, 0]


def test_nan_is_no_value(tmp_path):
    """As Python writes it for numbers, whole ones and texts."""
    columns = {
        "size": {"type": "float32", "missing": "allow", "min": -math.inf, "max": math.inf},
        "id": {"type": "int64", "missing": "allow"},
        "name": {"type": "string", "missing": "allow"},
        "label": {"type": "int64"},
    }
    nan = math.nan
    lines = [
        _line(0),
        _line(1, size=nan, id=nan, name=nan),
        _line(2, size=math.inf, name='"name": NaN, '),
        _line(3, size=-math.inf),
    ]
    found = _enforced(tmp_path, b"".join(lines), columns)
    rows = [row for part in found for row in part.batch.to_pylist()]
    assert [row["size"] for row in rows] == [0.0, None, math.inf, -math.inf]
    assert [row["id"] for row in rows] == [0, None, 2, 3]
    assert [row["name"] for row in rows] == ["n0", None, '"name": NaN, ', "n3"]
    assert not any(part.letters for part in found)


def test_items_of_lists_are_read_as_single_values_are(tmp_path):
    """Booleans are numbers, whole numbers are texts as they are written, and text is UTF-8."""
    columns = {
        "seen": {"type": "int64", "list": True, "max_items": 3},
        "tags": {"type": "string", "list": True, "max_items": 3},
        "label": {"type": "int64"},
    }
    lines = [
        b'{"seen": [true, false], "tags": [], "label": 0}',
        b'{"seen": [5, 2.0], "tags": [12345678901234567890, 7.0], "label": true}',
        b'{"seen": ["2", true], "tags": [], "label": 0}',
        b'{"seen": [], "tags": ["a", "\xff"], "label": 0}',
        b'{"seen": [], "tags": ["\xc3\xa9"], "label": 0}',
        b'{"seen": [], "tags": [true], "label": 0}',
    ]
    (good,) = _enforced(tmp_path, b"\n".join(lines) + b"\n", columns)
    assert good.batch.to_pylist() == [
        {"seen": [1, 0], "tags": [], "label": 0},
        {"seen": [5, 2], "tags": ["12345678901234567890", "7"], "label": 1},
        {"seen": [], "tags": ["é"], "label": 0},
    ]
    assert [(letter.row, letter.column, letter.reason) for letter in good.letters] == [
        (3, "seen", "type"),
        (4, "tags", "encoding"),
        (6, "tags", "type"),
    ]
    assert good.letters[1].value == str(["a", "\\xff"])


def test_true_and_false_are_numbers_among_numbers_too(tmp_path):
    lists = {"list": True, "max_items": 3}
    columns = {
        "seen": {"type": "int64", **lists},
        "sizes": {"type": "float32", **lists},
        "pair": {"type": "int64", "shape": [2]},
        "label": {"type": "int64"},
    }
    lines = [
        b'{"seen": [false, 1], "sizes": [1.5,true], "pair": [2 ,false], "label": 0}',
        b'{"seen": [true], "sizes": [ true, false ], "pair": [true, true], "label": 1}',
        b'{"seen": [3.0, true], "sizes": [], "pair": [1, 2], "label": 1}',
    ]
    (good,) = _enforced(tmp_path, b"\n".join(lines) + b"\n", columns)
    assert good.batch.to_pylist() == [
        {"seen": [0, 1], "sizes": [1.5, 1.0], "pair": [2, 0], "label": 0},
        {"seen": [1], "sizes": [1.0, 0.0], "pair": [1, 1], "label": 1},
        {"seen": [3, 1], "sizes": [], "pair": [1, 2], "label": 1},
    ]


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("int64", '[1, "2"]', "has a string as item 2, not an int64"),
        ("int64", '[true, "x"]', "has a string as item 2, not an int64"),
        (
            "int64",
            "[7, 8, 1e2]",
            "has a number with an exponent as item 3, which is not an int64; write its digits",
        ),
        ("int64", "[7, 1.5]", "has a number as item 2 that is not an int64"),
        ("int64", "[9223372036854775808]", "has a number as item 1 that is not an int64"),
        ("int64", "[1, NaN]", "has a number as item 2 that is not an int64"),
        ("int64", "[[1]]", "has an array as item 1, not an int64"),
        ("int64", '[1, {"a": 1}]', "has an object as item 2, not an int64"),
        ("int64", "5", "has a number, not a list of int64"),
        ("float32", '"a|b"', "has a string, not a list of float32"),
        ("float32", '[1.5, "x"]', "has a string as item 2, not a float32"),
        (
            "string",
            '["2", 1.5]',
            "has a number as item 2, not a string; a list has strings or whole numbers, not both",
        ),
        ("string", "[2, 1.5]", "has a number as item 2, not a string"),
        ("string", '["a", true]', "has a boolean as item 2, not a string"),
        ("string", "{}", "has an object, not a list of string"),
    ],
)
def test_letters_say_which_item_has_which_wrong_type(tmp_path, kind, value, problem):
    columns = {
        "v": {"type": kind, "list": True, "max_items": 3, "missing": "allow"},
        "label": {"type": "int64"},
    }
    lines = f'{{"label": 1}}\n{{"v": {value}, "label": 0}}\n'
    (good,) = _enforced(tmp_path, lines.encode(), columns)
    assert [(x.column, x.reason, x.problem) for x in good.letters] == [("v", "type", problem)]


CUT_OFF = ['"x"', "1.5", "99999999999999999999", "1e3", "1e400", "NaN", "true", "null", "{}", "[3]"]
CUT_OFF += ['{"seen": [1, 2, "x"]}', '"\\ud800"', '"[,]}"', "-0.0", f"[{'[' * 9}{']' * 9}]"]


@pytest.mark.parametrize("item", CUT_OFF)
@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("int64", ("7", "2.0")),
        ("float32", ("-0.0", "16777217")),
        ("string", ('"a"', '"\\u00e9"')),
        ("string", ("12345678901234567890", "7.0")),
    ],
)
def test_items_that_are_cut_off_may_be_anything(tmp_path, kind, kept, item):
    """In any line, whatever the others are."""
    rules = {"type": kind, "list": True, "max_items": 2, "missing": "allow", "default": "9"}
    rules["default"] = "9" if kind == "string" else 9
    columns = {
        "é": {**rules, "on_longer": "truncate"},
        "last": {**rules, "on_longer": "keep_last"},
        "other": {**rules, "on_longer": "truncate", "same_length_as": "é"},
        "label": {"type": "int64"},
    }
    one, two = kept
    plain = f'{{"é": [{one}, {two}], "other": [{one}, {two}], "label": 0}}'
    long = (
        f'{{"more": {{"é": [1, 2, "x"]}}, "\\u00e9" :[ {one} ,{two}, {item},{one} ] , '
        f'"label":1,"last": [{item}, {one},\t{two}], "other": [{one}, {two}, {one}, {two}]}}'
    )
    parts = [_enforced(tmp_path, f"{text}\n".encode(), columns) for text in (plain, long)]
    parts += [_enforced(tmp_path, f"{plain}\n{long}\nnonsense\n{long}\n".encode(), columns)]
    assert [len(good.letters) for (good,) in parts] == [0, 0, 1]
    rows = [good.batch.to_pylist() for (good,) in parts]
    first = rows[0][0]["é"]
    assert len(first) == 2 and str(first[0]) in one + two + "a"
    assert rows[1] == [{"é": first, "last": first, "other": first, "label": 1}]
    assert rows[2] == [*rows[0], *rows[1], *rows[1]]
    counts = [set(good.truncated.values()) for (good,) in parts]
    assert counts == [{0}, {1}, {2}]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ('[7, "y", "x"]', "has a string as item 2, not an int64"),
        ('[7, 2, "x"], "label": "z"', "has the key 'label' twice"),
        ('[7, 2, "x"], "seen": [1]', "has the key 'seen' twice"),
        ('[7, 2, "x"], "last": ["x", 1, 1.5]', "has a number as item 3 that is not an int64"),
        ('[7, 2, 1.5], "one": 1.5', "has a number that is not an int64"),
        ('[7, 2, "x",]', "has a string, not an int64"),
        ('[7, 2 "x"]', "is not one JSON object"),
        ('[7, 2, "x"} ', "has a string, not an int64"),
        ("[7, 2, 01]", "is not one JSON object"),
        ("[7, 2, x]", "is not one JSON object"),
        ('[7, 2, "x"', "has a string, not an int64"),
    ],
)
def test_what_is_wrong_beside_items_that_are_cut_off_is_said(tmp_path, values, problem):
    seen = {"type": "int64", "list": True, "max_items": 2, "missing": "allow"}
    columns = {
        "seen": {**seen, "on_longer": "truncate"},
        "last": {**seen, "on_longer": "keep_last"},
        "one": {"type": "int64", "missing": "allow"},
        "label": {"type": "int64"},
    }
    line = f'{{"label": 1, "seen": {values}}}'
    (good,) = _enforced(tmp_path, f'{{"label": 1}}\n{line}\n'.encode(), columns)
    [letter] = good.letters
    assert (letter.row, letter.problem, letter.value) == (2, problem, line)


@pytest.mark.parametrize(
    ("line", "raw"),
    [
        (
            b'{"more": 1, "label": 1, "size": 0.5, "name": "\xc3\xa9", "id": "x"}',
            {"id": "x", "name": "é", "size": 0.5, "label": 1},
        ),
        (b'{"id": 10000000000000000.0, "size": "1"}', {"id": 10**16, "size": "1"}),
        (b'{"name": {"a": [1]}, "label": true}', {"name": {"a": [1]}, "label": True}),
        (b'{"name": "\\ud800", "id": 1}', {"id": 1, "name": "\ud800"}),
        (b'{"id": 1, "x": 2, "id": 3}', None),
        (b'{"id": "x", "label": 1, "label": 2}', None),
        (b'{"id": "x", "name": "\xff"}', None),
        (b'{"id": 1', None),
        (b'[{"id": 1}]', None),
        (b"null", None),
        (b'{"name": 1.5, "size": 1} {"id": 2}', None),
    ],
)
def test_letters_of_lines_that_are_objects_have_their_columns(tmp_path, line, raw):
    (good,) = _enforced(tmp_path, b"\n".join([_line(0), line, b""]))
    [letter] = good.letters
    assert letter.raw == raw
    assert letter.raw is None or list(letter.raw) == [n for n in tables.COLUMNS if n in raw]
    text = line.decode(errors="backslashreplace")
    assert letter.value is not None and letter.value.startswith(text[:64])
    assert letter.of == validate.hash_raw_row(text if raw is None else raw)


def test_letters_of_lines_show_no_sensitive_and_no_long_values(tmp_path):
    columns = {**tables.COLUMNS, "name": {"type": "string", "sensitive": True}}
    columns["text"] = {"type": "string", "missing": "allow"}
    lines = [_line(1, id="x", name="Ann"), _line(2, id="x", name=None, text="y" * 5000)]
    (good,) = _enforced(tmp_path, b"".join(lines), columns)
    assert [letter.raw for letter in good.letters] == [
        {"id": "x", "name": "<redacted>", "size": 0.5, "label": 1},
        {"id": "x", "name": None, "size": 1.0, "label": 1},
    ]
    assert [letter.value for letter in good.letters] == ["<redacted>"] * 2
    assert "Ann" not in repr(good.letters)
