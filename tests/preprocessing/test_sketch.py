"""Percentiles are those of NumPy within the stated error, whatever the parts."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from preprocessing import sketch


def _of(values) -> sketch.Sketch:
    different, counts = np.unique(np.asarray(values), return_counts=True)
    return sketch.of(different, counts)


def _exact(values) -> np.ndarray:
    ranks = (np.arange(101) * len(values) + 99) // 100
    return np.sort(np.asarray(values))[ranks.clip(1) - 1].astype(np.float64)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1)
    | st.lists(st.integers(-(2**62), 2**62), min_size=1)
)
def test_at_most_the_stated_share_too_near_to_zero(values):
    found, exact = _of(values).percentiles(), _exact(values)
    assert (np.abs(found) <= np.abs(exact)).all()
    assert (np.abs(exact - found) <= np.abs(exact) * sketch.RELATIVE_ERROR).all()


@pytest.mark.parametrize("draw", ["normal", "exponential", "standard_cauchy"])
def test_numpy(draw):
    values = getattr(np.random.default_rng(1), draw)(size=9_999).astype(np.float32)
    exact = np.quantile(values, np.arange(101) / 100, method="inverted_cdf")
    found = _of(values).percentiles()
    np.testing.assert_allclose(found[1:-1], exact[1:-1], rtol=sketch.RELATIVE_ERROR * 1.01)


def test_integers_to_2048_are_exact():
    values = np.random.default_rng(2).integers(-2048, 2049, 10_000)
    assert _of(values).percentiles().tolist() == _exact(values).tolist()


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(st.lists(st.integers(-5000, 5000), min_size=1), st.integers(0, 50), st.randoms())
def test_parts_in_any_order_give_the_same(values, cut, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    cut = min(cut, len(values))
    parts = [_of(np.array(part, np.int64)) for part in (shuffled[:cut], shuffled[cut:])]
    for merged in (parts[0].merged(parts[1]), parts[1].merged(parts[0])):
        whole = _of(values)
        assert merged.buckets.tolist() == whole.buckets.tolist()
        assert merged.counts.tolist() == whole.counts.tolist()


def test_memory_is_bounded_by_the_range_not_by_the_number():
    values = np.random.default_rng(3).lognormal(0, 10, 200_000).astype(np.float32)
    assert len(_of(values).buckets) < 130 * 1024
