"""Whole numbers next to fractions, also where float32 or float64 has not all of them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.steps import whole


@pytest.mark.parametrize(
    ("limit", "found"),
    [(2.5, 2), (-2.5, -3), (3.0, 3), (1e300, whole.MOST), (-1e300, whole.LEAST)],
)
def test_the_largest_that_is_not_above(limit, found):
    assert whole.round_down(limit) == found


def test_the_smallest_that_are_not_below():
    assert whole.round_up([-1e300, -1.5, 0.5, 3.0, 1e300]) == [whole.LEAST, -1, 1, 3]


def test_a_difference_is_taken_before_it_becomes_float32():
    x = tf.constant([2**30 + 1, 2**30 - 3], tf.int64)
    assert whole.subtract(x, float(2**30)).numpy().tolist() == [1.0, -3.0]
    assert whole.subtract(tf.constant([1.5]), 1.0).numpy().tolist() == [0.5]


@pytest.mark.parametrize(
    ("x", "period", "found"), [(2**62 + 3, 4.0, 3), (-1, 7.0, 6), (5, 2.5, 0), (1, 1e300, 1)]
)
def test_a_remainder_is_never_below_zero(x, period, found):
    assert whole.modulo(tf.constant([x], tf.int64), period).numpy().tolist() == [found]
