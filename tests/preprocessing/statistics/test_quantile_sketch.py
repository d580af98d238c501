"""Percentiles are those of NumPy within the stated error, whatever the parts."""

from __future__ import annotations

import functools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from preprocessing.statistics import quantile_sketch


def _of(values) -> quantile_sketch.Sketch:
    different, counts = np.unique(np.asarray(values), return_counts=True)
    return quantile_sketch.build(different, counts)


def _exact(values) -> np.ndarray:
    ranks = (np.arange(101) * len(values) + 99) // 100
    return np.sort(np.asarray(values))[ranks.clip(1) - 1].astype(np.float64)


@hypothesis.settings(max_examples=150)
@hypothesis.given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1)
    | st.lists(st.integers(-(2**62), 2**62), min_size=1)
)
def test_few_numbers_are_exact(values):
    made = _of(values)
    assert made.kept_bits == 52
    assert made.compute_percentiles().tolist() == _exact(values).tolist()


@hypothesis.settings(max_examples=50)
@hypothesis.given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2), st.integers(2, 8)
)
def test_the_relative_error_is_at_most_the_stated_one(values, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_sketch, "MOST_BUCKETS", most)
        made = _of(values)
    assert len(made.buckets) <= most
    found, exact = made.compute_percentiles(), _exact(values)
    assert (np.abs(found) <= np.abs(exact)).all()
    if made.kept_bits > 0:
        # Of numbers below the least normal one the share is of that.
        size = np.maximum(np.abs(exact), np.finfo(float).tiny)
        assert (np.abs(exact - found) <= size * 2.0**-made.kept_bits).all()


@pytest.mark.parametrize("draw", ["normal", "exponential", "standard_cauchy"])
def test_percentiles_of_few_float32_equal_those_of_numpy(draw):
    values = getattr(np.random.default_rng(1), draw)(size=9_999).astype(np.float32)
    exact = np.quantile(values, np.arange(101) / 100, method="inverted_cdf")
    assert _of(values).compute_percentiles().tolist() == exact.tolist()


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.uniform(1.7e9, 1.7e9 + 86_400, n),  # the seconds of one day
        lambda rng, n: 2016.5 + 1.16 * rng.random(n),
        lambda rng, n: np.append(-1e300, 1e9 + rng.random(n)),
        lambda rng, n: rng.normal(size=n),
    ],
    ids=["seconds of a day", "years", "with an outlier", "normal"],
)
def test_quantiles_are_distinguished_wherever_the_numbers_lie(draw):
    values = draw(np.random.default_rng(5), 200_000)
    found, exact = _of(values).compute_percentiles(), _exact(values)
    width = exact[99] - exact[1]
    assert np.abs(found - exact)[1:].max() < width / 1000
    assert len(np.unique(found)) == 101


@hypothesis.settings(max_examples=100)
@hypothesis.given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-99, 99), min_size=1),
    st.lists(st.integers(0, 50), max_size=3),
    st.randoms(),
)
def test_merging_does_not_depend_on_the_order_of_parts(values, cuts, random):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_sketch, "MOST_BUCKETS", 7)
        whole = _of(np.array(values, float))
        shuffled = list(values)
        random.shuffle(shuffled)
        parts = [_of(np.array(part, float)) for part in np.split(np.array(shuffled), sorted(cuts))]
        random.shuffle(parts)
        merged = functools.reduce(lambda one, other: quantile_sketch.merge([one, other]), parts)
    assert merged.cut == whole.cut
    assert merged.buckets.tolist() == whole.buckets.tolist()
    assert merged.counts.tolist() == whole.counts.tolist()


def test_numbers_that_were_counted_can_be_taken_out_of_a_coarser_sketch():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_sketch, "MOST_BUCKETS", 7)
        part, rest = _of([1.0, 2.5, -3.0]), _of(np.arange(1, 200) / 7)
        whole = quantile_sketch.merge([part, rest])
        assert whole.cut > part.cut
        left = whole.subtract(part)
        alone = quantile_sketch.merge([rest, quantile_sketch.Sketch(cut=whole.cut)])
    assert left.cut == alone.cut
    assert left.buckets[left.counts != 0].tolist() == alone.buckets.tolist()
    assert left.counts[left.counts != 0].tolist() == alone.counts.tolist()


def test_memory_is_bounded():
    values = np.random.default_rng(3).lognormal(0, 10, 200_000).astype(np.float32)
    assert len(_of(values).buckets) <= quantile_sketch.MOST_BUCKETS
