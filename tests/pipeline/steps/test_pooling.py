"""One number of a list, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.steps import pooling
from tests.pipeline.feature_tables import make

ROWS = [[1.0, 4.0, -2.5], [], [-3.0]]


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("mean", [2.5 / 3, 0, -3]),
        ("sum", [2.5, 0, -3]),
        ("min", [-2.5, 0, -3]),
        ("max", [4, 0, -3]),
        ("count", [3, 0, 1]),
    ],
)
def test_of_numbers(by, found):
    step = pooling.Pool(by=by)
    made = step.apply(tf.ragged.constant(ROWS, tf.float32))
    assert made.dtype == tf.float32
    np.testing.assert_allclose(made.numpy(), found, rtol=1e-6)
    whole = step.apply(tf.ragged.constant([[1, 2], []], tf.int64))
    assert whole.dtype == tf.float32


def test_texts_are_counted():
    made = pooling.Pool(by="count").apply(tf.ragged.constant([["a", "b"], []]))
    assert made.numpy().tolist() == [2, 0]


def test_of_batches_in_which_all_lists_are_empty():
    none = tf.RaggedTensor.from_row_lengths(tf.zeros([0]), [0, 0])
    for by in ("mean", "sum", "min", "max", "count"):
        assert pooling.Pool(by=by).apply(none).numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            [{"pool": {"by": "mean"}}],
            r"x: pool: mean is for numbers, and it gets text; write by: c",
        ),
        ([], r"x: is a list of text, which no model takes; make ids of its items \(buckets, hash"),
        ([{"missing": {"fill": "a"}}], "x: missing takes single values, got a list"),
        ([{"ngrams": {"buckets": 9}}], "x: ngrams takes single values, got a list"),
    ],
)
def test_what_cannot_be_done_to_lists(steps, message):
    columns = {"tags": {"type": "string", "list": True, "max_items": 4}}
    with pytest.raises(errors.UsageError, match=message):
        make({"x": {"of": "tags", "steps": steps}}, columns=columns)


def test_lists_of_several_numbers_each():
    columns = {"sizes": {"type": "float32", "list": True, "max_items": 4}}
    with pytest.raises(errors.UsageError, match="cycle: makes several numbers of each item"):
        make({"sizes": {"steps": [{"cycle": {"period": 7}}]}}, columns=columns)


def test_single_values():
    with pytest.raises(errors.UsageError, match="pool takes a list, and gets single values"):
        make({"weight": {"steps": [{"pool": {"by": "sum"}}]}})
