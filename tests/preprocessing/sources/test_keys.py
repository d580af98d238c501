"""Keys are the values of columns, and two different ones are never one."""

from __future__ import annotations

import pyarrow as pa

from preprocessing.sources import keys


def test_values_are_joined():
    batch = pa.record_batch({"id": [1, 11], "name": ["1a", None], "label": [1, 0]})
    assert keys.join_columns(batch, ("id", "label")).to_pylist() == [b"1\x001", b"11\x000"]
    assert keys.join_columns(batch, ("id", "name")).to_pylist() == [b"1\x001a", b"11\x00"]
