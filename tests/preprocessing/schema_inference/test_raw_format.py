"""A guess becomes a section of a config that refuses no row its source can read."""

from __future__ import annotations

import pytest

from preprocessing.schema_inference.raw_format import Guess


@pytest.mark.parametrize(
    ("source", "kind"), [("csv", "string"), ("parquet", "string"), ("tfrecord", "int64")]
)
def test_columns_have_the_type_their_source_needs(source, kind):
    guess = Guess(source, "in", {"a": ("int64",)}, {"a": 3}, csv={"decimal": ","})
    data = guess.data()
    column = data.columns["a"]
    assert (column.type, column.shape, column.missing) == (kind, (3,), "allow")
    assert (data.label, data.csv.decimal, data.inputs["train"]["files"]) == ("a", ",", "in")
