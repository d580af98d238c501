"""Each transform of numbers against its formula in NumPy."""

from __future__ import annotations

import fractions

import numpy as np
import pytest
import tensorflow as tf

from pipeline.steps import numbers
from pipeline.steps.base import Values

X = np.array([[-3.5, 0.0], [1.25, 800.0], [2.0, -0.5]], np.float32)


@pytest.mark.parametrize("x", [X, np.array([-3, 0, 517], np.int64)], ids=["floats", "integers"])
def test_z_score(x):
    step = numbers.ZScore(mean=1.5, deviation=4.0)
    found = step.apply(tf.constant(x))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, (x - 1.5) / 4.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({}, ("percentiles",)),
        ({"min": 0.0}, ("percentiles",)),
        ({"max": 1.0}, ("percentiles",)),
        ({"min": 0.0, "max": 1.0}, ()),
    ],
)
def test_min_max_needs_percentiles_unless_it_has_both_ends(given, needed):
    assert numbers.MinMax(**given).needs("number") == needed


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


@pytest.mark.parametrize("fill", [2**60 + 1, 1717243201, -7, 1.6])
def test_missing_fills_whole_numbers_in_without_rounding_them(fill):
    values = Values("integer", (), stand_in=-(2**62) - 1)
    step = numbers.Missing(fill=fill).filled(values)
    x = tf.constant([-(2**62) - 1, -(2**62), 2**62 + 1], tf.int64)
    assert step.apply(x).numpy().tolist() == [round(fill), -(2**62), 2**62 + 1]
    together = numbers.Missing.apply_all([step], x[:, tf.newaxis])
    assert together.numpy()[:, 0].tolist() == step.apply(x).numpy().tolist()


def test_what_is_never_missing_is_found_nowhere():
    found = numbers.Missing(fill=7).indicate(tf.constant([-1, 0], tf.int64))
    assert found.numpy().tolist() == [0.0, 0.0]


def _piecewise(x, **settings):
    return numbers.Piecewise(**settings).apply(tf.constant(x)).numpy()


def test_piecewise_is_where_a_value_lies_between_edges():
    x = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0]
    wanted = [[0, 0], [0, 0], [0.5, 0], [1, 0], [1, 0.5], [1, 1], [1, 1]]
    np.testing.assert_array_equal(_piecewise(x, edges=(0, 1, 3)), wanted)


def test_piecewise_loses_nothing_between_the_outer_edges():
    """Edges times what is given add up to the value: what is linear stays so."""
    values = Values("number", (), percentiles=tuple(n**2 / 7 for n in range(101)))
    step = numbers.Piecewise(count=16).filled(values)
    assert step.edges is not None and step.out_shape(()) == (16,)
    x = np.linspace(step.edges[0], step.edges[-1], 777, dtype=np.float32)
    back = step.edges[0] + step.apply(tf.constant(x)).numpy() @ np.diff(step.edges)
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-3)


def test_piecewise_has_fewer_intervals_where_quantiles_coincide():
    for percentiles, intervals in (((0.0,) * 90 + tuple(range(11)), 2), ((5.0,) * 101, 1)):
        step = numbers.Piecewise(count=16).filled(Values("number", (), percentiles=percentiles))
        assert step.out_shape(()) == (intervals,)
        assert np.isfinite(step.apply(tf.constant([5.0, -1e30, 1e30]))).all()


@pytest.mark.parametrize("settings", [{}, {"edges": (1,)}, {"edges": (1, 1)}, {"edges": (2, 1)}])
def test_piecewise_needs_edges_that_rise(settings):
    with pytest.raises(ValueError, match=r"needs count or edges|edges must be two numbers"):
        numbers.Piecewise(**settings)


@pytest.mark.parametrize("settings", [{"edges": (1717243265, 1717243300)}, {"edges": (0, 1e-60)}])
def test_piecewise_needs_edges_that_float32_tells_apart(settings):
    step = numbers.Piecewise(**settings)
    step.check("integer", ())
    with pytest.raises(ValueError, match=r"are the same as float32, which the values are; write"):
        step.check("number", ())


# Days as numbers, seconds and nanoseconds since 1970: of each float32 has one in several only.
LARGE = {
    "days": np.arange(20190101, 20190132),
    "seconds": 1717243200 + np.arange(0, 7200, 7),
    "nanoseconds": 1717243200 * 10**9 + np.arange(0, 10**12, 10**10),
    "before 1970": -1717243200 + np.arange(0, 7200, 7),
}


@pytest.mark.parametrize("x", LARGE.values(), ids=LARGE)
def test_large_whole_numbers_keep_their_distances(x):
    """Against exact sums, to what float64 loses of nanoseconds."""
    low, high = float(x[5]), float(x[25])
    middle, width = low + 0.5, high - low
    wanted = (x - int(x[5])) / width
    steps = {
        "min_max": (numbers.MinMax(min=low, max=high), wanted),
        "z_score": (numbers.ZScore(mean=middle, deviation=width), wanted - 0.5 / width),
        "piecewise": (numbers.Piecewise(edges=(low, high)), wanted.clip(0, 1)[:, np.newaxis]),
    }
    for name, (step, by_hand) in steps.items():
        found = step.apply(tf.constant(x))
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, by_hand, rtol=1e-6, atol=1e-6, err_msg=name)
    for kind in (numbers.MinMax, numbers.ZScore):
        step = steps["min_max" if kind is numbers.MinMax else "z_score"][0]
        together = kind.apply_all([step, step], tf.constant(np.stack([x, x], axis=1)))
        alone = step.apply(tf.constant(x))
        np.testing.assert_array_equal(together, np.stack([alone, alone], axis=1))


def test_piecewise_of_large_whole_numbers_has_the_edges_that_are_asked_for():
    percentiles = tuple(1717243200.0 + 0.7 * n for n in range(101))
    step = numbers.Piecewise(count=16).filled(Values("integer", (), percentiles=percentiles))
    assert step.out_shape(()) == (16,)
    x = 1717243200 + np.arange(71)
    found = step.apply(tf.constant(x)).numpy()
    np.testing.assert_allclose(found @ np.diff(step.edges), x - step.edges[0], atol=1e-4)


@pytest.mark.parametrize("period", [60, 86400, 0.7, 365.25, 1e30])
@pytest.mark.parametrize("x", LARGE.values(), ids=LARGE)
def test_cycle_of_large_whole_numbers(x, period):
    turns = [float(fractions.Fraction(int(v)) / fractions.Fraction(period) % 1) for v in x]
    angle = 2 * np.pi * np.array(turns)
    found = numbers.Cycle(period=period).apply(tf.constant(x))
    assert found.dtype == tf.float32
    # float64, which a fractional period takes, has every 256th nanosecond only.
    atol = 1e-6 if float(period).is_integer() or x.max() < 2**53 else 2
    np.testing.assert_allclose(found, np.stack([np.sin(angle), np.cos(angle)], axis=-1), atol=atol)


def test_cycle():
    found = numbers.Cycle(period=4).apply(tf.constant([0, 1, 2, 3, 4], tf.int64))
    wanted = [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 1]]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert numbers.Cycle(period=4).out_shape(()) == (2,)


@pytest.mark.parametrize("step", [numbers.ZScore(), numbers.MinMax()])
def test_numbers_that_float32_cannot_subtract_become_zero(step):
    """TensorFlow takes their differences for 0, and would divide 0 by 0."""
    tiny = tuple(n * 1e-42 for n in range(101))
    values = Values("number", (), percentiles=tiny, mean=5e-41, variance=9e-82)
    found = step.filled(values).apply(tf.constant(tiny, tf.float32)).numpy()
    np.testing.assert_array_less(np.abs(found), 1e-30)
