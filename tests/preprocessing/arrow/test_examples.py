"""Examples to columns: what TensorFlow wrote is read, and what is of another kind is told."""

from __future__ import annotations

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from pipeline.config import Column
from preprocessing.arrow import examples
from tests.preprocessing.examples import example
from trainer.input import parsing

_COLUMNS = {
    "n": Column(type="int64", missing="allow"),
    "x": Column(type="float32", missing="allow"),
    "s": Column(type="string", missing="allow"),
    "v": Column(type="int64", shape=(2,), missing="allow"),
}


def _read(*payloads):
    batch, bad = examples.parse_columns(payloads, _COLUMNS, {})
    return batch.to_pylist(), bad


def test_values_and_their_absence():
    full = {"n": -5, "x": 0.5, "s": b"\xff", "v": [1, 2]}
    rows, bad = _read(example(**full), example(), example(n=[], v=[1, 2, 3]), b"")
    assert not bad
    nothing = {"n": None, "x": None, "s": None, "v": None}
    assert rows == [full, nothing, {**nothing, "v": [1, 2, 3]}, nothing]


@hypothesis.given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(width=32), st.binary()))
)
def test_all_values_come_through(values):
    rows, bad = _read(*(example(n=n, x=x, s=s) for n, x, s in values))
    assert not bad
    assert [(row["n"], row["s"]) for row in rows] == [(n, s) for n, _, s in values]
    assert [repr(row["x"]) for row in rows] == [repr(x) for _, x, _ in values]


@pytest.mark.parametrize(
    ("payload", "column", "reason", "problem"),
    [
        (b"\xff\xff", None, "example", "is not a tf.train.Example"),
        (example(n=1.5), "n", "type", "has a float_list, int64 has a int64_list"),
        (example(x=3), "x", "type", "has a int64_list, float32 has a float_list"),
        (example(n=[1, 2]), "n", "type", "has 2 values, int64 has one"),
        (example(v=[b"a"]), "v", "type", "has a bytes_list, int64 has a int64_list"),
    ],
)
def test_what_is_of_another_kind(payload, column, reason, problem):
    rows, bad = _read(example(n=1), payload, example(n=2))
    assert [row["n"] for row in rows] == [1, 2]
    assert bad == {1: (column, reason, bad[1][2], problem)}


def test_the_first_column_that_is_wrong_is_reported():
    _, bad = _read(example(n=1.5, x=1))
    assert bad[0][0] == "n" and bad[0][2] == "[1.5]"


def test_sequences_are_distinguished_from_examples():
    lists = tf.train.FeatureLists(feature_list={"clicks": tf.train.FeatureList()})
    context = tf.train.Features(
        feature={"s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * 500]))}
    )
    for of in (context, None):
        made = tf.train.SequenceExample(context=of, feature_lists=lists).SerializeToString()
        assert examples.is_sequence(made)
    # Without lists both are the same bytes.
    assert not examples.is_sequence(tf.train.SequenceExample(context=context).SerializeToString())
    for payload in (
        example(n=1, s=b"x" * 500),
        example(),
        b"",
        b"\x0a",
        b"\x0a\xff\xff",
        b"\x0a\x05a",
    ):
        assert not examples.is_sequence(payload)


def test_lists_are_empty_or_missing():
    """Empty if the feature has the type; null if it is absent, or of another type and empty."""
    rules = {"list": True, "max_items": 2, "missing": "allow"}
    columns = {"n": Column(type="int64", **rules), "s": Column(type="string", **rules)}
    without_kind = tf.train.Example()
    without_kind.features.feature["n"].SetInParent()
    payloads = [
        example(n=[], s=[b"a", b"", b"c"]),
        example(s=[]),  # of int64
        without_kind.SerializeToString(),
        example(n=[5], s=b"a"),
    ]
    batch, bad = examples.parse_columns(payloads, columns, {})
    assert not bad and batch.to_pylist() == [
        {"n": [], "s": [b"a", b"", b"c"]},
        {"n": None, "s": None},
        {"n": None, "s": None},
        {"n": [5], "s": [b"a"]},
    ]
    _, bad = examples.parse_columns([example(n=[0.5, 1.5])], columns, {})
    assert bad == {0: ("n", "type", "[0.5, 1.5]", "has a float_list, int64 has a int64_list")}


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (
            {"type": "string", "list": True, "max_items": 2},
            "has a int64_list, string has a bytes_list",
        ),
        ({"type": "string"}, "has a int64_list, string has a bytes_list"),
        ({"type": "int64"}, "has no values, int64 has one"),
        ({"type": "int64", "shape": (2, 3)}, "has no values, int64 has 6"),
    ],
)
def test_what_tensorflow_parses_itself_has_no_empty_feature_but_of_lists(column, problem):
    columns = {"s": Column(missing="allow", **column)}
    payload = example(s=[])  # of int64
    with pytest.raises(tf.errors.InvalidArgumentError):
        parsing.parse(tf.constant([payload]), columns)
    assert examples.parse_columns([payload], columns, {})[1] == {}
    _, bad = examples.parse_columns([payload], columns, {}, exact=True)
    assert bad == {0: ("s", "type", "[]", problem)}


def test_an_empty_list_is_one_to_tensorflow_too():
    columns = {"s": Column(type="int64", list=True, max_items=2)}
    batch, bad = examples.parse_columns([example(s=[])], columns, {}, exact=True)
    assert batch.to_pylist() == [{"s": []}] and not bad
    assert parsing.parse(tf.constant([example(s=[])]), columns)["s"].numpy().tolist() == [[-1, -1]]
