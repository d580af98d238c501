"""Columns side by side in one tensor, and back."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from pipeline.config import Column
from trainer.models import packing


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
    by_type = packing.of_columns(columns)
    packed = by_type.pack(given)
    others = {name for name in columns if name[0] not in "fs"}
    assert set(packed) == {"packed/float32", "packed/string"} | others
    assert packed["packed/float32"].shape == (3, 40)
    found = by_type.unpack({**packed, "mark": tf.constant([1, 2, 3])})
    assert set(found) == {*columns, "mark"}
    for name, value in given.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
