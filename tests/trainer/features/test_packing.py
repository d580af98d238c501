"""Columns side by side in one tensor, and back."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import Column
from trainer.features import packing


def test_many_columns_of_one_type_are_one_tensor_and_come_back():
    columns = {f"f{n}": Column(type="float32") for n in range(40)}
    columns |= {f"s{n}": Column(type="string") for n in range(32)}
    columns |= {f"i{n}": Column(type="int64") for n in range(31)}
    columns |= {
        "wide": Column(type="float32", shape=(2,)),
        "tags": Column(type="int64", list=True, max_items=3),
        "picture": Column(type="uint8", shape=(2,)),
    }
    given = {
        name: tf.constant(
            np.full((3, *column.shape), n).astype(str if column.type == "string" else column.type)
        )
        for n, (name, column) in enumerate(columns.items())
    }
    by_type = packing.build_packing(columns)
    packed = by_type.pack(given)
    others = {name for name in columns if name[0] not in "fs"}
    assert set(packed) == {"packed/float32", "packed/string"} | others
    assert packed["packed/float32"].shape == (3, 40)
    found = by_type.unpack({**packed, "mark": tf.constant([1, 2, 3])})
    assert set(found) == {*columns, "mark"}
    for name, value in given.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


def _reloaded(inputs, outputs, path):
    tf.keras.Model(inputs, outputs).save(path)
    return tf.keras.models.load_model(path)


def test_a_keras_model_takes_as_one_what_was_taken_apart(tmp_path):
    """Twice: what AutoGraph does to a layer's op must not keep the next from being saved."""
    rows = np.arange(80, dtype=np.float32).reshape(2, 40)
    by_type = packing.Packing({f"f{n}": tf.float32 for n in range(40)})
    for turn in ("first", "second"):
        x = tf.keras.Input((40,))
        values = by_type.unpack({"packed/float32": x})
        backwards = {f"f{n}": values[f"f{39 - n}"] for n in range(40)}
        y = by_type.pack(backwards)["packed/float32"]
        model = _reloaded(x, y, tmp_path / f"{turn}.keras")
        assert len(model.layers) == 2  # the input, and one that puts the columns in order
        np.testing.assert_array_equal(model(rows), rows[:, ::-1])


def test_what_was_taken_from_two_comes_in_the_order_asked_for(tmp_path):
    x, y = tf.keras.Input((3, 2)), tf.keras.Input((3, 2))
    parts = [*tf.unstack(x, 3, axis=1), *tf.unstack(y, 3, axis=1)]
    chosen = [4, 1, 2, 5, 0]
    model = _reloaded(
        [x, y], packing.stack_tensors([parts[n] for n in chosen]), tmp_path / "m.keras"
    )
    rows = np.random.default_rng(0).normal(size=(2, 4, 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(model(list(rows)), np.concatenate(rows, axis=1)[:, chosen])


@pytest.mark.parametrize("kind", ["graph", "keras"])
def test_only_columns_are_taken_as_they_lie(kind):
    with tf.Graph().as_default():
        x = tf.zeros([3, 3]) if kind == "graph" else tf.keras.Input((3,), batch_size=3)
        assert packing.find_slice(tf.unstack(x, axis=1)[2])[1:] == (x, 2)
        assert packing.find_slice(tf.unstack(x, axis=0)[2]) is None
        assert packing.find_slice(x + 1) is None
