"""Bodies of requests, held to the signature and the schema; and answers as TensorFlow Serving's."""

from __future__ import annotations

import base64
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from serving.rest import json_codec
from serving.rest.json_codec import BadRequest
from tests.preprocessing import examples
from tests.preprocessing.tables import make_config

COLUMNS = {
    "delay": {"type": "float32", "min": -60, "max": 600, "missing": "allow"},
    "hour": {"type": "int64", "min": 0, "max": 23},
    "origin": {"type": "string", "allowed": ["EWR", "JFK"]},
    "pilot": {"type": "string", "max_length": 2, "missing": "allow", "sensitive": True},
    "pixels": {"type": "uint8", "shape": [2, 2]},
    "track": {"type": "float32", "shape": [2, 3]},
}
DATA = make_config("unused", columns={**COLUMNS, "label": {"type": "int64"}}).data.model_copy(
    update={
        "columns": {name: config.Column(**column) for name, column in COLUMNS.items()},
        "inputs": {"test": {}},
    }
)
SIGNATURES = {
    "serving_default": {
        "delay": tf.TensorSpec([None], tf.float32),
        "hour": tf.TensorSpec([None], tf.int64),
        "origin": tf.TensorSpec([None], tf.string),
        "pilot": tf.TensorSpec([None], tf.string),
        "pixels": tf.TensorSpec([None], tf.string),
        "track": tf.TensorSpec([None, 2, 3], tf.float32),
    },
    "examples": {"examples": tf.TensorSpec([None], tf.string)},
    "user": {
        "delay": tf.TensorSpec([None], tf.float32),
        "hour": tf.TensorSpec([None], tf.int64),
    },
    "examples:user": {"examples": tf.TensorSpec([None], tf.string)},
}
ROW = {
    "delay": 1.5,
    "hour": 12,
    "origin": "EWR",
    "pilot": "",
    "pixels": {"b64": "AAECAw=="},
    "track": [[1, 2, 3], [4.5, 5, 6]],
}


def _read(body):
    return json_codec.read(body, DATA, SIGNATURES)


def test_values_that_the_step_date_cannot_read_are_counted():
    found = json_codec.read(_rows({}, {}), DATA, SIGNATURES, dates={"origin": ("iso",)})
    assert found.undated == {"origin": (2, "'EWR'")}
    assert not _read(_rows({})).undated


def _rows(*changes):
    return {"instances": [{**ROW, **change} for change in changes]}


def _columns(*changes, **others):
    rows = [{**ROW, **change} for change in changes]
    return {"inputs": {**{name: [row[name] for row in rows] for name in ROW}, **others}}


@pytest.mark.parametrize("form", [_rows, _columns])
def test_rows_and_columns_feed_the_same(form):
    found = _read(form({}, {"hour": 0, "delay": -2}))
    assert found.signature == "serving_default"
    assert found.by_row is (form is _rows)
    assert found.feeds["delay"].tolist() == [1.5, -2.0]
    assert found.feeds["delay"].dtype == np.float32
    assert found.feeds["hour"].tolist() == [12, 0]
    assert found.feeds["origin"].tolist() == [b"EWR", b"EWR"]
    assert found.feeds["pixels"].tolist() == [b"\0\1\2\3"] * 2
    assert found.feeds["track"].shape == (2, 2, 3)
    assert found.feeds["track"][1].tolist() == [[1, 2, 3], [4.5, 5, 6]]


def test_what_stands_for_no_value_keeps_every_rule():
    body = json.loads(json.dumps(_rows({"delay": math.nan, "pilot": ""})))
    assert np.isnan(_read(body).feeds["delay"]).all()


@pytest.mark.parametrize("form", [_rows, _columns])
def test_nan_is_no_value_of_a_column_with_a_default(form):
    """Training has the default there, and the model would take NaN as it is."""
    columns = {**DATA.columns, "delay": config.Column(**COLUMNS["delay"], default=5.5)}
    data = DATA.model_copy(update={"columns": columns})
    where = r"instances\[1\]" if form is _rows else "inputs, row 1"
    line = rf"^{where}: column 'delay' is NaN; no value is written as 5\.5$"
    with pytest.raises(BadRequest, match=line):
        json_codec.read(form({"delay": 5.5}, {"delay": math.nan}), data, SIGNATURES)
    example = tf.train.Example()
    for name, value in (("hour", 1), ("origin", b"EWR"), ("pixels", b"0123")):
        kind = "int64_list" if isinstance(value, int) else "bytes_list"
        getattr(example.features.feature[name], kind).value.append(value)
    example.features.feature["track"].float_list.value.extend(range(6))
    json_codec.read(_body_of(example), data, SIGNATURES)
    example.features.feature["delay"].float_list.value.append(math.nan)
    with pytest.raises(
        BadRequest, match=r"^instances\[0\]: column 'delay' is NaN; no value is wri"
    ):
        json_codec.read(_body_of(example), data, SIGNATURES)


def _body_of(example):
    encoded = base64.b64encode(example.SerializeToString()).decode()
    return {"signature_name": "examples", "instances": [{"b64": encoded}]}


def test_texts_may_be_in_base64_with_or_without_padding():
    for text in ("AAECAw==", "AAECAw"):
        found = _read(_rows({"pixels": {"b64": text}, "origin": {"b64": "RVdS"}}))
        assert found.feeds["pixels"].tolist() == [b"\0\1\2\3"]
        assert found.feeds["origin"].tolist() == [b"EWR"]


CASES = [
    ([1], "the body must be an object, got a list of 1"),
    ({}, "the body must have one of 'instances' (rows) and 'inputs' (columns)"),
    ({"instances": [ROW], "inputs": {}}, "the body must have one of"),
    ({"instances": [ROW], "instance": 1}, "unknown key 'instance'; known are signature_name"),
    ({"instances": [ROW], "signature_name": "x"}, "signature name: 'x' not found in signature def"),
    ({"instances": [ROW], "signature_name": 3}, "signature name: 3 not found"),
    ({"instances": []}, "instances: is an empty list, must be a list of one row or more"),
    ({"instances": ROW}, "instances: is an object, must be a list"),
    ({"instances": [3]}, "instances[0]: is 3, must be an object with delay, hour"),
    ({"inputs": [ROW]}, "inputs: is a list of 1, must be an object with delay"),
    (_columns({}, hour=12), "inputs.hour: is 12, must be a list of a value a row"),
    (_columns({}, hour=[1, 2]), "inputs: 'delay' has 1 rows, 'hour' has 2; all must have as many"),
    (_columns({}, {"hour": "x"}), "inputs.hour[1]: is 'x', must be a whole number"),
    (_columns({}, {"hour": 24}), "inputs, row 1: column 'hour' is 24, allowed is 0 to 23"),
    (_rows({"hours": 1}), "instances[0]: unknown column 'hours' (did you mean 'hour'?); the model"),
    (_rows({}, {"hour": None}), "instances[1].hour: is null, must be a whole number"),
    (_rows({"delay": None}), "instances[0].delay: is null; no value is written as NaN"),
    (_rows({"hour": True}), "instances[0].hour: is true or false, must be a whole number"),
    (_rows({"hour": 1.0}), "instances[0].hour: is 1.0, must be a whole number"),
    (_rows({"hour": 2**63}), "instances[0].hour: is 9223372036854775808, too large for int64"),
    (_rows({"hour": -1}), "instances[0]: column 'hour' is -1, allowed is 0 to 23"),
    (_rows({"delay": "1"}), "instances[0].delay: is '1', must be a number"),
    (_rows({"delay": "1" * 99}), "instances[0].delay: is a text, must be a number"),
    (_rows({"delay": 1e39}), "instances[0].delay: is 1e+39, which float32 cannot hold"),
    (_rows({"delay": 2**24 + 1}), "instances[0].delay: is 16777217, which float32 cannot hold"),
    (_rows({"delay": 601}), "instances[0]: column 'delay' is 601.0, allowed is -60 to 600"),
    (_rows({"origin": 3}), 'instances[0].origin: is 3, must be a text or {"b64": text}'),
    (_rows({"origin": {"b64": "*"}}), "instances[0].origin.b64: is not base64"),
    (_rows({"origin": {"b64": "é"}}), "instances[0].origin.b64: is not base64"),
    (_rows({"origin": {"b64": "/w=="}}), "instances[0]: column 'origin' is '\\\\xff', not UTF-8"),
    (_rows({"origin": "\ud800"}), "instances[0].origin: half of a surrogate pair is not text"),
    (_rows({}, {"origin": "LGA"}), "instances[1]: column 'origin' is 'LGA', not one of EWR, JFK"),
    (
        _rows({"pilot": "secret"}),
        "instances[0]: column 'pilot' is '<redacted>', allowed are 0 to 2",
    ),
    (
        _rows({"pixels": {"b64": "AAEC"}}),
        "instances[0].pixels: has 3 bytes, must have 4: 2x2 values",
    ),
    (
        _rows({"track": [[1, 2], [3, 4]]}),
        "instances[0].track[0]: is a list of 2, must be a list of 3",
    ),
    (_rows({"track": [[1, 2, 3]]}), "instances[0].track: is a list of 1, must be a list of 2"),
    (_rows({"track": [[1, 2, 3], 4]}), "instances[0].track[1]: is 4, must be a list of 3"),
    (_rows({"track": 1}), "instances[0].track: is 1, must be a list of 2"),
]


@pytest.mark.parametrize(("body", "message"), CASES, ids=lambda case: str(case)[:40])
def test_what_is_wrong_is_named(body, message):
    with pytest.raises(BadRequest) as failed:
        _read(body)
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("hour", "too large for int64"),
        ("delay", "which float32 cannot hold"),
        ("origin", 'must be a text or {"b64": text}'),
        ("track", "must be a list of 2"),
    ],
)
@pytest.mark.parametrize("digits", [65, 400, 5001])
def test_a_number_of_many_digits_is_named_and_not_repeated(column, problem, digits):
    """Python refuses to read some thousand, and to make more than 308 a float."""
    text = json.dumps(_rows({column: 1234567})).replace("1234567", "-" + "9" * digits)
    with pytest.raises(BadRequest) as failed:
        _read(json.loads(text, parse_int=json_codec.parse_whole))
    said = f"instances[0].{column}: is a number of {digits:,} digits, {problem}"
    assert str(failed.value) == said


@pytest.mark.parametrize(
    ("name", "hint"), [("hour", ""), ("delay", "; no value is written as NaN")]
)
def test_a_column_that_is_missing_is_named_with_what_no_value_is(name, hint):
    row = {other: value for other, value in ROW.items() if other != name}
    with pytest.raises(BadRequest) as failed:
        _read({"instances": [ROW, row]})
    assert str(failed.value) == f"instances[1]: column {name!r} is missing{hint}"


def _example(**values):
    kinds = {int: ("int64_list", tf.train.Int64List), bytes: ("bytes_list", tf.train.BytesList)}
    kinds[float] = ("float_list", tf.train.FloatList)
    features = {}
    for name, value in values.items():
        many = value if isinstance(value, list) else [value]
        member, kind = kinds[type(many[0])]
        features[name] = tf.train.Feature(**{member: kind(value=many)})
    made = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return {"b64": base64.b64encode(made).decode()}


GOOD = {"hour": 3, "origin": b"JFK", "pixels": b"\0\1\2\3", "track": [1.0] * 6}


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [_example(**GOOD)]},
        {"instances": [{"examples": _example(**GOOD)}]},
        {"inputs": [_example(**GOOD)]},
        {"inputs": {"examples": [_example(**GOOD)]}},
    ],
)
def test_a_lone_input_needs_no_name(body):
    found = _read({"signature_name": "examples", **body})
    [payload] = found.feeds["examples"]
    assert tf.train.Example.FromString(payload).features.feature["hour"].int64_list.value == [3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hour": 99}, "instances[1]: column 'hour' is 99, allowed is 0 to 23"),
        ({"hour": 1.5}, "instances[1]: column 'hour' has a float_list, int64 has a int64_list"),
        ({"track": [1.0]}, "instances[1]: column 'track' "),
    ],
)
def test_serialized_examples_are_held_to_the_schema(changed, message):
    rows = [_example(**GOOD), _example(**{**GOOD, **changed})]
    with pytest.raises(BadRequest) as failed:
        _read({"signature_name": "examples", "instances": rows})
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"delay": 1.0, "hour": 24}, "column 'hour' is 24, allowed is 0 to 23"),
        ({"delay": math.inf, "hour": 2}, "column 'delay' is inf, not a finite number; infinite"),
    ],
)
def test_a_part_of_a_model_holds_rows_to_the_rules_of_its_columns(row, message):
    good = {"delay": -2.0, "hour": 3}
    name, instances = {"signature_name": "user"}, {"instances": [good, row]}
    inputs = {"inputs": {column: [good[column], row[column]] for column in good}}
    packed = {"signature_name": "examples:user", "instances": [_example(**good), _example(**row)]}
    for body in (name | instances, packed, name | inputs):
        where = "inputs, row 1" if "inputs" in body else "instances[1]"
        with pytest.raises(BadRequest) as failed:
            _read(body)
        assert str(failed.value).startswith(f"{where}: {message}")
    assert _read(name | {"instances": [good]}).feeds["hour"].tolist() == [3]
    _read({"signature_name": "examples:user", "instances": [_example(**good)]})


def test_a_part_of_a_model_says_what_no_value_is_and_counts_other_dates():
    body = {"signature_name": "user", "instances": [{"hour": 1}]}
    with pytest.raises(BadRequest, match=r"'delay' is missing; no value is written as NaN$"):
        _read(body)
    columns = {"day": config.Column(type="string"), **DATA.columns}
    body = {"signature_name": "day", "instances": [{"day": "x"}]}
    found = json_codec.read(
        body,
        DATA.model_copy(update={"columns": columns}),
        {**SIGNATURES, "day": {"day": tf.TensorSpec([None], tf.string)}},
        dates={"day": ("iso",), "origin": ("iso",)},
    )
    assert found.undated == {"day": (1, "'x'")}


def test_what_is_no_example_or_lacks_a_column():
    for rows, message in (
        ([{"b64": "AAAA"}], "instances[0]: is not a tf.train.Example"),
        ([_example(hour=3)], "instances[0]: column 'origin' has no value"),
    ):
        with pytest.raises(BadRequest) as failed:
            _read({"signature_name": "examples", "instances": rows})
        assert str(failed.value) == message


_LIST = {"list": True, "max_items": 2}
LISTS = {
    "tags": config.Column(type="string", missing="allow", **_LIST),
    "seen": config.Column(type="int64", min=0, on_longer="truncate", **_LIST),
}


def _read_lists(*rows):
    encoded = [{"b64": base64.b64encode(examples.example(**row)).decode()} for row in rows]
    data = DATA.model_copy(update={"columns": LISTS})
    body = {"signature_name": "examples", "instances": encoded}
    signatures = {**SIGNATURES, "serving_default": LISTS}
    return json_codec.read(body, data, signatures, dates={"tags": ("iso",)})


def test_serialized_examples_hold_lists_of_any_length():
    rows = [{"tags": [b"a", b"b"], "seen": [1, 2, 3]}, {"seen": []}, {"tags": b"c", "seen": 7}]
    found = _read_lists(*rows)
    assert found.feeds["examples"].tolist() == [examples.example(**row) for row in rows]
    assert found.undated == {"tags": (3, "'a'")}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"tags": [b"a", b"b", b"c"], "seen": []},
            "column 'tags' is \"['a', 'b', 'c']\", allowed are 2 items; see max_items and "
            "on_longer",
        ),
        ({"seen": [0.5]}, "column 'seen' has a float_list, int64 has a int64_list"),
        (
            {"seen": [], "tags": []},  # of int64, which TensorFlow would refuse
            "column 'tags' has a int64_list, string has a bytes_list",
        ),
        ({"tags": [b"a"]}, "column 'seen' has no value"),
        ({"seen": [-5, 1]}, "column 'seen' is [-5, 1], allowed is 0 or more"),
        (
            {"seen": [1, -1]},
            "column 'seen' is '[1, -1]', with an item -1, which stands for none; if it is an item, "
            "give the column another default",
        ),
    ],
)
def test_lists_of_serialized_examples_are_held_to_the_rules(row, problem):
    with pytest.raises(BadRequest) as failed:
        _read_lists({"seen": [1]}, row)
    assert str(failed.value) == f"instances[1]: {problem}"


OUTPUTS = {
    "probabilities": np.array([[0.1, 0.9], [0.2, 0.8]], np.float32),
    "class": np.array([1, 1]),
}


def test_several_outputs_are_answered_by_name():
    assert json_codec.answer(OUTPUTS, by_row=True) == {
        "predictions": [
            {"class": 1, "probabilities": [0.1, 0.9]},
            {"class": 1, "probabilities": [0.2, 0.8]},
        ]
    }
    assert json_codec.answer(OUTPUTS, by_row=False) == {
        "outputs": {"class": [1, 1], "probabilities": [[0.1, 0.9], [0.2, 0.8]]}
    }


def test_a_lone_output_goes_without_its_name():
    lone = {"prediction": np.array([0.1, 2.0], np.float32)}
    assert json_codec.answer(lone, by_row=True) == {"predictions": [0.1, 2.0]}
    assert json_codec.answer(lone, by_row=False) == {"outputs": [0.1, 2.0]}
    assert json.dumps(json_codec.answer(lone, by_row=True)) == '{"predictions": [0.1, 2.0]}'


def test_bytes_are_known_by_their_name_or_by_being_no_text():
    values = np.array(["é".encode(), b"\xff"], object)
    shown = ["é", {"b64": "/w=="}]
    assert json_codec.answer({"name": values}, by_row=True) == {"predictions": shown}
    packed = [{"b64": "w6k="}, {"b64": "/w=="}]
    assert json_codec.answer({"name_bytes": values}, by_row=True) == {"predictions": packed}


def test_numbers_that_are_none_are_tokens_of_javascript():
    found = json_codec.answer({"x": np.array([np.nan, np.inf, -np.inf], np.float32)}, by_row=True)
    assert json.dumps(found) == '{"predictions": [NaN, Infinity, -Infinity]}'
