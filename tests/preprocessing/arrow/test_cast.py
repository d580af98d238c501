"""Text and other types become what the config declares; what cannot is found, and only that."""

from __future__ import annotations

import decimal
import math

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from pipeline import config
from preprocessing.arrow import arrow_types, cast
from preprocessing.rows import rules


def _convert(values, column: config.Column, kind: pa.DataType | None = None):
    """Returns the values and the rows of each reason."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind or pa.binary())
    made, faults = cast.convert(array, column)
    assert made.type == arrow_types.arrow_type(column) and len(made) == len(array)
    return made.to_pylist(), {reason: rows.nonzero()[0].tolist() for reason, rows in faults}


_INT, _FLOAT, _TEXT = (config.Column(type=kind) for kind in ("int64", "float32", "string"))


@pytest.mark.parametrize(
    ("column", "texts", "values", "faults"),
    [
        (_INT, [b"1", None, b"-7"], [1, None, -7], {}),
        (
            _INT,
            [b"1", b"x", b"", b"2.5", b" 3", b"4", b"x", b"2.0", b"16777217.000", b".0"],
            [1, *[None] * 4, 4, None, 2, 2**24 + 1, None],
            {"type": [1, 2, 3, 4, 6, 9]},
        ),
        (
            _INT,
            [b"+5", b"+7.0", b"-5", b"++5", b"+", b"1+5"],
            [5, 7, -5, *[None] * 3],
            {"type": [3, 4, 5]},
        ),
        (_FLOAT, [b"+5", b"+7.25", b"++5"], [5.0, 7.25, None], {"type": [2]}),
        (
            _INT,
            [one.encode() for one in ("5\u00a0", "\u2009-\u00a07.0", "\u22125", "5\u00a05", " 5")],
            [5, -7, -5, None, None],
            {"type": [3, 4]},
        ),
        (
            _FLOAT,
            [
                one.encode()
                for one in ("5.5\u00a0 ", "\ufeff+\u202f7", "\u2212\u00a0.5", "\u22121\u2212")
            ],
            [5.5, 7.0, -0.5, None],
            {"type": [3]},
        ),
        (_TEXT, ["5\u00a0".encode()], ["5\u00a0"], {}),
        (_INT, [b"9223372036854775807", b"9223372036854775808"], [2**63 - 1, None], {"type": [1]}),
        (_INT, [b"\xff", b"5", b"5\x00"], [None, 5, None], {"encoding": [0], "type": [2]}),
        (_FLOAT, [b"1e3", b"-.5", None, b"1,5"], [1000.0, -0.5, None, None], {"type": [3]}),
        (
            _FLOAT,
            [b"inf", b"1e39", b"-1e999", b"2"],
            [math.inf, None, None, 2.0],
            {"overflow": [1, 2]},
        ),
        (
            _TEXT,
            ["grün".encode(), b"\xc3", None, b"a\x00b", b""],
            ["grün", None, None, None, ""],
            {"encoding": [1]},
        ),
    ],
)
def test_text(column, texts, values, faults):
    found, reasons = _convert(texts, column)
    assert found == values
    if column is _TEXT:
        assert reasons in (faults, {"encoding": [1, 3]}, {"encoding": [3]})
    else:
        assert reasons == faults


def test_both_kinds_of_bad_text_are_found():
    made, faults = cast.convert(pa.array([b"\xc3", b"a\0b", b"c"]), _TEXT)
    assert made.to_pylist() == [None, None, "c"]
    assert [(reason, rows.tolist()) for reason, rows in faults] == [
        ("encoding", [True, False, False]),
        ("encoding", [False, True, False]),
    ]


@pytest.mark.parametrize(
    ("kind", "values", "column", "made", "bad"),
    [
        (pa.int32(), [1, None], _INT, [1, None], []),
        (pa.float64(), [1.0, 1.5], _INT, [1, None], [1]),
        (pa.uint64(), [1, 2**64 - 1], _INT, [1, None], [1]),
        (pa.bool_(), [True], _INT, [1], []),
        (pa.int64(), [3], _FLOAT, [3.0], []),
        (pa.int64(), [2**24 + 1, 2**40], _FLOAT, [2.0**24, 2.0**40], []),
        (pa.int64(), [3], _TEXT, ["3"], []),
        (pa.list_(pa.int64()), [[1], [2]], _INT, [None, None], [0, 1]),
        (
            pa.list_(pa.int64()),
            [[1, 2], [1], None],
            config.Column(type="int64", shape=(2,)),
            [[1, 2], None, None],
            [1],
        ),
        (
            pa.list_(pa.int64()),
            [[2**24 + 1, 2], [1], None],
            config.Column(type="float32", shape=(2,)),
            [[2.0**24, 2.0], None, None],
            [1],
        ),
        (
            pa.list_(pa.int64()),
            [[1, 2], [1, None], None],
            config.Column(type="int64", shape=(2,)),
            [[1, 2], None, None],
            [1],
        ),
        (
            pa.list_(pa.string(), 2),
            [None, ["a", None], ["a", "b"]],
            config.Column(type="string", shape=(2,)),
            [None, None, ["a", "b"]],
            [1],
        ),
    ],
)
def test_other_types(kind, values, column, made, bad):
    found, reasons = _convert(values, column, kind)
    assert found == made
    assert reasons == ({"type": bad} if bad else {})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("packed", [pa.Array.dictionary_encode, pa.Array.to_pylist])
def test_text_is_text_however_it_is_stored(kind, packed):
    digits = packed(pa.array(["1", "x", None], kind))
    assert _convert(digits, _INT, kind) == ([1, None, None], {"type": [1]})
    text = packed(pa.array(["a", "b\0", None], kind))
    assert _convert(text, _TEXT, kind) == (["a", None, None], {"encoding": [1]})


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([1e39, 2.0, math.inf]),
        pa.array([decimal.Decimal(10) ** 39, decimal.Decimal(2), None], pa.decimal256(50, 0)),
    ],
    ids=lambda numbers: str(numbers.type),
)
def test_numbers_too_large_for_float32(numbers):
    assert _convert(numbers, _FLOAT) == ([None, 2.0, numbers[2].as_py()], {"overflow": [0]})


@pytest.mark.parametrize("column", [_INT, _FLOAT])
@pytest.mark.parametrize("kind", [pa.date32(), pa.binary(4)])
@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_values_of_a_type_that_cannot_become_another(column, kind, values):
    found, reasons = _convert(values, column, kind)
    assert found == values and not any(reasons.values())


def test_what_is_right_already_is_not_touched():
    images = pa.array([b"ab"], pa.binary(2))
    made, faults = cast.convert(images, config.Column(type="uint8", shape=(2,)))
    assert made is images and faults == []


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.lists(st.none() | st.integers(-(2**70), 2**70).map(str) | st.text(max_size=3)))
def test_a_value_is_bad_on_its_own_or_not_at_all(texts):
    found, _ = _convert([None if t is None else t.encode() for t in texts], _INT)
    for text, value in zip(texts, found, strict=True):
        alone, _ = _convert([None if text is None else text.encode()], _INT)
        assert alone == [value]


def _list(kind, **rules):
    return config.Column(type=kind, list=True, max_items=9, **rules)


@pytest.mark.parametrize(
    ("column", "texts", "values", "faults"),
    [
        (_list("string"), [b"a|b", b"", None, b"a"], [["a", "b"], [], None, ["a"]], {}),
        (_list("string"), [b"a||b", b"a"], [None, ["a"]], {"item": [0]}),
        (_list("string"), [b"a|\xff", b'"a|b"'], [None, None], {"encoding": [0], "quotes": [1]}),
        (_list("int64"), [b"1|2.0", b"1|x", b"3|"], [[1, 2], None, None], {"type": [1, 2]}),
        (_list("int64"), [b"1|-1"], [None], {"item": [0]}),
        (_list("int64", default=0), [b"1|-1", b"0"], [[1, -1], None], {"item": [1]}),
        (_list("float32"), [b"1.5|2", b"nan|1", b"1e50"], [[1.5, 2.0], None, None], {
            "finite": [1], "overflow": [2],
        }),
        (_list("int64", separator=" "), [b"1 2"], [[1, 2]], {}),
        (_list("string", separator="json"), [b'["a", "b,|"]', b"[]", b"", None, b'["\\u00e9"]'], [
            ["a", "b,|"], [], [], None, ["é"],
        ], {}),
        (_list("string", separator="json"), [b"a", b'["a"', b'{"a": 1}', b'[["a"]]', b"1"], [
            None, None, None, None, None,
        ], {"json": [0, 1, 2, 3, 4]}),
        (_list("string", separator="json"), [b"null", b" null ", b'["null"]', b"NULL"], [
            None, None, ["null"], None,
        ], {"json": [3]}),
        (_list("string", separator="json"), [b'["a", null]', b"[1.50, true]"], [
            None, ["1.50", "true"],
        ], {"type": [0]}),
        (_list("string", separator="json"), [b"[1, NaN]", b"[-Infinity]", b'["NaN", "inf"]'], [
            None, None, ["NaN", "inf"],
        ], {"json": [0, 1]}),
        (_list("int64", separator="json"), [b"[0x10]", b"[01]", b"[+1]", b"[1.0]"], [
            None, None, None, [1],
        ], {"json": [0, 1, 2]}),
        (_list("int64", separator="json"), [b"[1, 9007199254740993]", b'[1, "x"]', b"[2.5]"], [
            [1, 9007199254740993], None, None,
        ], {"type": [1, 2]}),
        (_list("float32", separator="json"), [b"[1, 2.5, 1e3]", b"[NaN]"], [
            [1, 2.5, 1000], None,
        ], {"finite": [1]}),
        (_list("string", separator="json"), [
            b'["\\ud83d"]', b'["a"]', b'["a", "\\ude00\\ud83d"]', b"['b', '\\ud83d']",
            b'["\\ud83d\\ude00"]', b"['\\ud83d\\ude00', '\\U0001f600']", b'["\\ud83d", null]',
        ], [None, ["a"], None, None, ["😀"], ["😀", "😀"], None], {
            "encoding": [0, 2, 3, 6], "type": [6],
        }),
        (_list("int64", separator="json"), [b'["\\ud83d"]', b"[1]", b'["2"]'], [
            None, [1], [2],
        ], {"encoding": [0]}),
        (_list("float32", default=0), [b"nan", b"1"], [None, [1.0]], {"finite": [0]}),
    ],
)  # fmt: skip
def test_lists_in_texts(column, texts, values, faults):
    assert _convert(texts, column) == (values, faults)


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_lists_of_other_types(kind):
    found = _convert([[1, 2], None, [], [3, None]], _list("float32"), kind(pa.int32()))
    assert found == ([[1.0, 2.0], None, [], None], {"type": [3]})
    assert _convert([["1"], ["x"]], _list("int64"), kind(pa.string())) == (
        [[1], None],
        {"type": [1]},
    )
    assert _convert([[b"a"], [b"\xff"]], _list("string"), kind(pa.binary())) == (
        [["a"], None],
        {"encoding": [1]},
    )


def test_what_is_no_list():
    assert _convert([1, None], _list("int64"), pa.int64()) == ([None, None], {"type": [0]})
    assert _convert([None], _list("int64"), pa.null()) == ([None], {})
    nested = pa.array([[[1]], [[2, 3]]])
    assert _convert(nested, _list("int64")) == ([None, None], {"type": [0, 1]})


@pytest.mark.parametrize("kind", [pa.decimal128(12, 2), pa.decimal256(50, 2)])
def test_decimals_become_the_nearest_float32(kind):
    numbers = [decimal.Decimal(n) / 100 for n in range(8144274000, 8144276000, 7)]
    array = pa.array(numbers, kind)
    nearest = [float(np.float32(float(number))) for number in numbers]
    assert _convert(array, _FLOAT) == (nearest, {})
    pairs = pa.array([numbers[:2], None, numbers[2:4]], pa.list_(kind))
    made, faults = _convert(pairs, config.Column(type="float32", shape=(2,)))
    assert made == [nearest[:2], None, nearest[2:4]] and not faults
    some = config.Column(type="float32", list=True, max_items=9)
    assert _convert(pairs, some)[0][2] == nearest[2:4]


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (["False", "True"], ["True", "False", None]),
        (["", "TRUE"], ["TRUE", "FALSE", None]),
        ([], ["true", "false", None]),
        (["no", "yes"], ["true", "false", None]),
    ],
)
def test_booleans_are_written_as_texts_are_allowed_to_be(allowed, words):
    column = config.Column(type="string", allowed=tuple(allowed))
    assert _convert([True, False, None], column, pa.bool_()) == (words, {})


@pytest.mark.parametrize(
    ("source", "separator"),
    [
        ([[1.0, math.inf], [2.0]], "|"),
        (["1|inf", "2"], "|"),
        (["[1, -Infinity]", "[2]"], "json"),
    ],
)
def test_an_item_of_a_list_is_finite(source, separator):
    column = config.Column(type="float32", list=True, max_items=3, separator=separator)
    made, faults = cast.convert(pa.array(source), column)
    assert [(reason, bad.tolist()) for reason, bad in faults] == [("finite", [True, False])]
    assert made.to_pylist() == [None, [2.0]]
    problem = rules.describe_problem("finite", source[0], column)
    assert problem.endswith(", not a finite number, which each item of a list must be")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("listed", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)])
@pytest.mark.parametrize("more", [{"list": True, "max_items": 3}, {"shape": [2]}])
def test_no_item_of_a_list_of_numbers_becomes_the_text_nan(number, kind, listed, more):
    column = config.Column(type="string", missing="allow", **more)
    rows = [[1.5, number], None, [0.5, 2.5], [number, number]]
    items = [row and [None if one is None else np.float16(one) for one in row] for row in rows]
    made, faults = cast.convert(pa.array(items, listed(kind)), column)
    assert [(reason, bad.tolist()) for reason, bad in faults] == [
        ("finite", [True, False, False, True])
    ]
    assert made.to_pylist() == [None, None, ["0.5", "2.5"], None]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_no_number_becomes_the_text_nan(number, kind):
    """Sources give NaN as a null: then it is a missing value."""
    column = config.Column(type="string", missing="allow")
    found = pa.array([np.float16(1.5), np.float16(number), None, np.float16(2.5)], kind)
    by_place = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), found.drop_null())
    for array in (found, by_place):
        made, faults = cast.convert(array, column)
        assert [(reason, bad.tolist()) for reason, bad in faults] == [
            ("finite", [False, True, False, False])
        ]
        assert made.to_pylist() == ["1.5", None, None, "2.5"]
    assert rules.describe_problem("finite", number, column, label=True) == (
        f"is {number}, not a finite number, of which no text is made; correct it or leave it empty"
    )


_STRUCT = pa.struct([("a", pa.int64())])
_LISTED = {"list": True, "max_items": 6, "missing": "allow"}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[{"a": 1}], None, []], pa.list_(_STRUCT)),
        pa.array([[{"a": 1}, {"a": 2}], None], pa.list_(_STRUCT, 2)),
        pa.array([{"a": 1}, None], _STRUCT),
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array([[[("a", 1)]], None, []], pa.list_(pa.map_(pa.string(), pa.int64()))),
        pa.array([[[1]], None, []], pa.list_(pa.list_(pa.int64()))),
        pa.array(["x", None], pa.string_view()),
        pa.array([["x"], None, []], pa.list_(pa.string_view())),
        pa.array([[1.5], None, []], pa.list_(pa.float16())),
    ],
)
@pytest.mark.parametrize("more", [{"missing": "allow"}, _LISTED, {"shape": [2]}])
def test_what_no_type_can_hold_is_bad_and_nothing_is_not(array, more):
    made, faults = cast.convert(array, config.Column(type="int64", **more))
    bad = np.any([rows for _, rows in faults], axis=0)
    empty = len(array) == 3 and more is _LISTED
    assert bad.tolist() == [True, False, not empty][: len(array)]
    assert made.to_pylist() == [None, None, [] if empty else None][: len(array)]


def test_views_are_texts_and_lists():
    column = config.Column(type="string", **_LISTED)
    views = pa.array([["a", "b"], None], pa.list_view(pa.string_view()))
    made, faults = cast.convert(views, column)
    assert (made.to_pylist(), faults) == ([["a", "b"], None], [])
    texts = pa.array(["a|b", None], pa.string_view())
    made, faults = cast.convert(texts, column)
    assert (made.to_pylist(), faults) == ([["a", "b"], None], [])
