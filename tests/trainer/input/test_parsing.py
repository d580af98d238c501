"""Records to tensors, and what a caller of the exported model feeds."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import Column, config_file
from pipeline.records import tfrecord
from tests.golden import regenerate
from trainer.input import parsing

COLUMNS = {
    "pixels": Column(type="uint8", shape=(2, 3)),
    "size": Column(type="float32", shape=(2,)),
    "name": Column(type="string"),
    "label": Column(type="int64"),
}


def _example(pixels: bytes, size: list[float], name: bytes, label: int) -> bytes:
    kinds = tf.train
    values = {
        "pixels": kinds.Feature(bytes_list=kinds.BytesList(value=[pixels])),
        "size": kinds.Feature(float_list=kinds.FloatList(value=size)),
        "name": kinds.Feature(bytes_list=kinds.BytesList(value=[name])),
        "label": kinds.Feature(int64_list=kinds.Int64List(value=[label])),
    }
    return kinds.Example(features=kinds.Features(feature=values)).SerializeToString()


def test_every_type_of_column():
    batch = [_example(bytes(range(6)), [0.5, 1.5], b"a", 3), _example(b"\xff" * 6, [2, 3], b"b", 4)]
    parsed = parsing.parse(tf.constant(batch), COLUMNS)
    assert parsed["pixels"].dtype == tf.uint8
    assert parsed["pixels"].numpy().tolist() == [[[0, 1, 2], [3, 4, 5]], [[255] * 3] * 2]
    assert parsed["size"].numpy().tolist() == [[0.5, 1.5], [2.0, 3.0]]
    assert parsed["name"].numpy().tolist() == [b"a", b"b"]
    assert parsed["label"].numpy().tolist() == [3, 4]


def test_golden_records():
    """The first record preprocessing wrote of known raw files: see tests/golden/README.md."""
    loaded = config_file.load(str(regenerate.CONFIG))
    path = sorted(regenerate.RECORDS.glob("test-*"))[0]
    stored = list(tfrecord.read(str(path)))
    parsed = parsing.parse(tf.constant(stored), loaded.data.columns)
    images, labels = parsed["image"].numpy(), parsed["label"].numpy()
    assert (images.shape, images.dtype) == ((50, 28, 28, 1), np.uint8)
    raw = regenerate.HERE / "raw"
    assert _rows(images, labels) == _rows(
        np.frombuffer(_unpacked(raw / "test-images.gz")[16:], np.uint8),
        np.frombuffer(_unpacked(raw / "test-labels.gz")[8:], np.uint8),
    )


def _rows(images: np.ndarray, labels: np.ndarray) -> list[tuple[int, bytes]]:
    pixels = images.reshape(len(labels), 784)
    return sorted((int(label), row.tobytes()) for label, row in zip(labels, pixels, strict=True))


def _unpacked(path) -> bytes:
    return gzip.decompress(path.read_bytes())


@pytest.mark.parametrize(
    "stored",
    [[b"12345"], [b"1234567"], [b""], [b"123456", b"12345"], [b"123", b"456"], [b"123456123456"]],
    ids=["short", "long", "empty", "second", "two halves", "two in one"],
)
def test_bytes_of_a_wrong_length_are_refused(stored):
    with pytest.raises(tf.errors.InvalidArgumentError):
        parsing.decode(tf.constant(stored), COLUMNS["pixels"])


def test_a_missing_column_is_refused():
    example = tf.train.Example().SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
        parsing.parse(tf.constant([example]), {"label": COLUMNS["label"]})


def test_a_value_that_may_be_missing_has_a_stand_in():
    columns = {
        "number": Column(type="float32", missing="allow"),
        "pair": Column(type="float32", shape=(2,), missing="allow", default=0.5),
        "count": Column(type="int64", missing="allow"),
        "year": Column(type="int64", missing="allow", default=1900),
        "text": Column(type="string", missing="allow"),
    }
    empty = tf.train.Example().SerializeToString()
    parsed = {name: t.numpy() for name, t in parsing.parse(tf.constant([empty]), columns).items()}
    assert np.isnan(parsed.pop("number")).tolist() == [True]
    assert {name: values.tolist() for name, values in parsed.items()} == {
        "pair": [[0.5, 0.5]],
        "count": [-1],
        "year": [1900],
        "text": [b""],
    }


def test_decoded_shapes_are_known_to_the_graph():
    with tf.Graph().as_default():
        stored = tf.compat.v1.placeholder(tf.string, [None])
        assert parsing.decode(stored, COLUMNS["pixels"]).shape.as_list() == [None, 2, 3]


def test_serving_takes_raw_values_or_examples():
    columns = {n: COLUMNS[n] for n in ("pixels", "size", "name")}
    with tf.Graph().as_default() as graph:
        versions = graph.graph_def_versions
        serialized, found = parsing.build_serving_inputs(columns)
        assert graph.graph_def_versions == versions
        assert serialized.shape.as_list() == [None]
        assert {name: (t.dtype, t.shape.as_list()) for name, t in found.items()} == {
            "pixels": (tf.string, [None]),
            "size": (tf.float32, [None, 2]),
            "name": (tf.string, [None]),
        }
        assert {t.op.name for t in found.values()} == {"pixels", "size", "name"}


_LISTS = {
    "tags": Column(type="string", list=True, max_items=3),
    "seen": Column(type="int64", list=True, max_items=3, missing="allow", default=-7),
    "prices": Column(type="float32", list=True, max_items=3),
}


def _lists(**values) -> bytes:
    made = {}
    for name, value in values.items():
        kind = {"tags": "bytes_list", "seen": "int64_list", "prices": "float_list"}[name]
        made[name] = tf.train.Feature(**{kind: {"value": value}})
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def test_lists_are_padded_to_the_most_items():
    rows = [
        _lists(tags=[b"a", b"b", b"c", b"d"], seen=[1], prices=[0.5, 2]),
        _lists(tags=[], prices=[]),
        _lists(),
    ]
    parsed = parsing.parse(tf.constant(rows), _LISTS)
    assert parsed["tags"].shape == (3, 3)
    assert parsed["tags"].numpy().tolist() == [[b"a", b"b", b"c"], [b""] * 3, [b""] * 3]
    assert parsed["seen"].numpy().tolist() == [[1, -7, -7], [-7] * 3, [-7] * 3]
    np.testing.assert_array_equal(parsed["prices"], [[0.5, 2, np.nan], [np.nan] * 3, [np.nan] * 3])


def test_the_last_items_are_kept_if_asked():
    column = Column(type="string", list=True, max_items=2, on_longer="keep_last")
    fed = [[b"a", b"", b"b", b"c"], [b"", b"d", b"", b""], [b""] * 4]
    padded = parsing.decode(tf.constant(fed), column)
    assert padded.numpy().tolist() == [[b"b", b"c"], [b"d", b""], [b"", b""]]
    of_records = parsing.parse(tf.constant([_lists(tags=[b"a", b"b", b"c"])]), {"tags": column})
    assert of_records["tags"].numpy().tolist() == [[b"b", b"c"]]
    assert of_records["tags"].shape.as_list() == [1, 2]


@pytest.mark.parametrize("width", [0, 1, 5])
def test_padded_lists_of_any_width_are_decoded(width):
    fed = np.full([2, width], b"", object)
    fed[:, -1:] = b"z"
    found = parsing.decode(tf.constant(fed, tf.string), _LISTS["tags"])
    item = b"z" if width else b""
    assert found.numpy().tolist() == [[item, b"", b""]] * 2
