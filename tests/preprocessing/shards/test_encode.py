"""The bytes are those of protobuf, and the frames those of TensorFlow's reader and writer."""

from __future__ import annotations

import string

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from pipeline import config
from pipeline.records import tfrecord
from preprocessing.arrow import arrow_types
from preprocessing.shards import encode

_INT64 = st.integers(-(2**63), 2**63 - 1)
_FLOAT32 = st.floats(width=32, allow_nan=False)
_VALUES = {"int64": _INT64, "float32": _FLOAT32, "string": st.text(max_size=200)}


def _list(kind: str) -> config.Column:
    return config.Column(type=kind, list=True, max_items=5)


@st.composite
def _tables(draw) -> tuple[dict[str, config.Column], list[dict[str, list]]]:
    """Draws columns, and rows that hold a list of values for each."""
    names = draw(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4, unique=True))
    columns = {
        name: config.Column(
            type=draw(st.sampled_from(["uint8", "int64", "float32", "string"])),
            shape=draw(st.sampled_from([(), (1,), (3,), (2, 2), (150,)])),
        )
        if draw(st.booleans())
        else _list(draw(st.sampled_from(["int64", "float32", "string"])))
        for name in names
    }
    rows = draw(st.integers(1, 5))
    return columns, [
        {name: draw(_values(column)) for name, column in columns.items()} for _ in range(rows)
    ]


def _maybe(draw, columns: dict[str, config.Column], row: dict[str, list]) -> dict[str, list]:
    return {n: v for n, v in row.items() if columns[n].type == "uint8" or draw(st.booleans())}


@st.composite
def _gappy_tables(draw) -> tuple[dict[str, config.Column], list[dict[str, list]]]:
    """Draws tables in which rows lack values."""
    columns, rows = draw(_tables())
    return columns, [_maybe(draw, columns, row) for row in rows]


def _values(column: config.Column) -> st.SearchStrategy:
    if column.type == "uint8":
        return st.binary(min_size=column.size, max_size=column.size).map(lambda value: [value])
    if column.list:
        return st.lists(_VALUES[column.type], max_size=column.max_items)
    # Long lists of drawn values are slow to draw: one value is repeated.
    if column.size > 9:
        return _VALUES[column.type].map(lambda value: [value] * column.size)
    return st.lists(_VALUES[column.type], min_size=column.size, max_size=column.size)


def _batch(columns: dict[str, config.Column], rows: list[dict[str, list]]) -> pa.RecordBatch:
    arrays = []
    for name, column in columns.items():
        scalar = column.type == "uint8" or not (column.shape or column.list)
        found = [row.get(name) for row in rows]
        values = [value[0] if scalar and value is not None else value for value in found]
        arrays.append(pa.array(values, arrow_types.arrow_type(column)))
    return pa.record_batch(arrays, names=list(columns))


def _protobuf(columns: dict[str, config.Column], row: dict[str, list]) -> bytes:
    features = {}
    for name, column in columns.items():
        if name not in row:
            continue
        values = row[name]
        if column.type == "int64":
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        elif column.type == "float32":
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            raw = [value if isinstance(value, bytes) else value.encode() for value in values]
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=raw))
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def _check(found: list[bytes], wanted: list[bytes]) -> None:
    """By value: protobuf puts the column `00` before `0`."""
    assert list(map(len, found)) == list(map(len, wanted))
    read = tf.train.Example.FromString
    assert list(map(read, found)) == list(map(read, wanted))


@hypothesis.settings(max_examples=150)
@hypothesis.given(_tables())
def test_rows_are_what_protobuf_writes(table):
    columns, rows = table
    encoded = encode.encode(_batch(columns, rows), columns)
    _check(encoded.to_pylist(), [_protobuf(columns, row) for row in rows])


@hypothesis.settings(max_examples=75)
@hypothesis.given(_gappy_tables())
def test_a_missing_value_has_no_feature(table):
    columns, rows = table
    encoded = encode.encode(_batch(columns, rows), columns)
    _check(encoded.to_pylist(), [_protobuf(columns, row) for row in rows])


@hypothesis.settings(max_examples=25)
@hypothesis.given(_tables(), st.integers(0, 4))
def test_a_slice_of_a_batch_is_encoded_like_the_rows_in_it(table, start):
    columns, rows = table
    batch = _batch(columns, rows)
    whole = encode.encode(batch, columns).to_pylist()
    assert encode.encode(batch.slice(start, 2), columns).to_pylist() == whole[start : start + 2]


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 16383, 16384, 2**31, 2**62, 2**63 - 1, -1, -(2**63)]
)
def test_every_length_of_varint(value):
    columns = {"n": config.Column(type="int64")}
    row = {"n": [value]}
    encoded = encode.encode(_batch(columns, [row, {"n": [5]}]), columns)
    assert encoded[0].as_py() == _protobuf(columns, row)


@pytest.mark.parametrize("kind", ["int64", "float32", "string"])
def test_an_empty_list_is_a_feature_and_a_missing_one_is_none(kind):
    columns = {"n": _list(kind)}
    rows = [{"n": []}, {}, {"n": []}]
    encoded = encode.encode(_batch(columns, rows), columns).to_pylist()
    assert encoded == [_protobuf(columns, row) for row in rows]
    assert encoded[0] != encoded[1]


def test_columns_are_written_by_name_not_by_place():
    columns = {name: config.Column(type="int64") for name in ("b", "a", "ä", "Z")}
    row = {name: [1] for name in columns}
    assert encode.encode(_batch(columns, [row]), columns)[0].as_py() == _protobuf(columns, row)


def test_frames_are_what_tensorflow_reads(tmp_path):
    payloads = [b"", b"a", b"b" * 300, string.printable.encode()]
    framed = encode.frame(pa.array(payloads, pa.large_binary()))
    assert framed.to_pylist() == [tfrecord.frame(payload) for payload in payloads]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"".join(framed.to_pylist()))
    assert [r.numpy() for r in tf.data.TFRecordDataset(str(path))] == payloads


def test_no_rows_give_no_records():
    columns = {"n": config.Column(type="int64"), "x": config.Column(type="uint8", shape=(2,))}
    empty = pa.RecordBatch.from_pylist([], arrow_types.arrow_schema(columns))
    assert len(encode.frame(encode.encode(empty, columns))) == 0


def test_varint():
    assert [encode.encode_varint(n) for n in (0, 127, 128, 300)] == [
        b"\0",
        b"\x7f",
        b"\x80\1",
        b"\xac\2",
    ]


def test_parse_example_gives_the_values_back():
    columns = {
        "image": config.Column(type="uint8", shape=(2, 2)),
        "label": config.Column(type="int64"),
        "weights": config.Column(type="float32", shape=(2,)),
    }
    rows = [{"image": [bytes([i] * 4)], "label": [i], "weights": [i / 2, -i]} for i in range(200)]
    parsed = tf.io.parse_example(
        encode.encode(_batch(columns, rows), columns).to_pylist(),
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "weights": tf.io.FixedLenFeature([2], tf.float32),
        },
    )
    assert parsed["image"].numpy().tolist() == [row["image"][0] for row in rows]
    assert parsed["label"].numpy().tolist() == list(range(200))
    np.testing.assert_array_equal(parsed["weights"], [row["weights"] for row in rows])
