"""Padding is no item, wherever it is."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf

from trainer.features import lists


@pytest.mark.parametrize(
    ("padded", "stand_in", "items"),
    [
        ([["a", ""], ["", "b"], ["", ""]], "", [[b"a"], [b"b"], []]),
        ([[1, -1, 2], [-1, -1, -1]], -1, [[1, 2], []]),
        ([[0.5, math.nan], [math.nan, math.nan]], math.nan, [[0.5], []]),
        ([[0.0, math.nan]], 0.0, [[math.nan]]),
    ],
)
def test_what_stands_for_none_is_left_out(padded, stand_in, items):
    found = lists.make_ragged(tf.constant(padded), stand_in).to_list()
    assert repr(found) == repr(items)


def test_several_ids_of_each_value():
    ragged = tf.ragged.constant([[[1, 2], [3, 4]], []], ragged_rank=1, inner_shape=(2,))
    assert lists.merge_ids(ragged).to_list() == [[1, 2, 3, 4], []]
    assert lists.merge_ids(tf.constant([[1, 2], [3, 4]])).to_list() == [[1, 2], [3, 4]]
    assert lists.repeat_items(tf.constant([[0.5, 2]]), 2).numpy().tolist() == [[0.5, 0.5, 2, 2]]
    assert lists.repeat_items(tf.zeros([2, 0]), 3).shape == (2, 0)


def test_lists_without_any_place():
    assert lists.make_ragged(tf.zeros([2, 0], tf.int64), -1).to_list() == [[], []]
