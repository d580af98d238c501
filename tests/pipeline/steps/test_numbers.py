"""Each transform of numbers against its formula in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.steps import numbers

X = np.array([[-3.5, 0.0], [1.25, 800.0], [2.0, -0.5]], np.float32)


@pytest.mark.parametrize("x", [X, np.array([-3, 0, 517], np.int64)], ids=["floats", "integers"])
def test_z_score(x):
    step = numbers.ZScore(mean=1.5, deviation=4.0)
    found = step.apply(tf.constant(x))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, (x - 1.5) / 4.0, rtol=1e-6)


def test_min_max():
    step = numbers.MinMax(min=-3.5, max=800.0)
    found = step.apply(tf.constant(X)).numpy()
    np.testing.assert_allclose(found, (X + 3.5) / 803.5, rtol=1e-5)
    assert found.min() == 0.0
    assert found.max() == pytest.approx(1.0)


def test_log1p():
    x = np.array([0.0, 0.5, 1e6, 1e-8], np.float32)
    found = numbers.Log1p().apply(tf.constant(x))
    np.testing.assert_allclose(found, np.log1p(x), rtol=1e-6)


@pytest.mark.parametrize("limits", [(-1.0, 2.0), (None, 1.5), (0.0, None)])
def test_clip(limits):
    step = numbers.Clip(min=limits[0], max=limits[1])
    np.testing.assert_allclose(step.apply(tf.constant(X)), np.clip(X, *limits))


@pytest.mark.parametrize(
    ("x", "stand_in", "fill", "wanted"),
    [
        ([1.5, np.nan, -1.0], np.nan, 7.5, [1.5, 7.5, -1.0]),
        ([1.5, np.nan, -99.0], -99.0, 0.0, [1.5, 0.0, 0.0]),
        ([1.5, np.nan], None, 2.0, [1.5, 2.0]),
    ],
    ids=["no number", "another stand-in", "never missing, but no number"],
)
def test_missing_floats(x, stand_in, fill, wanted):
    step = numbers.Missing(fill=fill, stand_in=stand_in)
    found = step.apply(tf.constant(x, tf.float32))
    np.testing.assert_allclose(found, wanted)


def test_missing_integers_and_texts():
    step = numbers.Missing(fill=12, stand_in=-1)
    assert step.apply(tf.constant([-1, 5], tf.int64)).numpy().tolist() == [12, 5]
    step = numbers.Missing(fill="none", stand_in="")
    assert step.apply(tf.constant(["", "x"])).numpy().tolist() == [b"none", b"x"]


def test_what_is_never_missing_is_found_nowhere():
    found = numbers.Missing(fill=7).indicated(tf.constant([-1, 0], tf.int64))
    assert found.numpy().tolist() == [0.0, 0.0]
