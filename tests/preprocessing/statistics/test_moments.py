"""Moments are those of exact arithmetic, whatever the parts."""

from __future__ import annotations

import fractions

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from preprocessing.statistics import moments

_FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1)
_INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)


def _of(values, dtype) -> moments.Moments:
    different, counts = np.unique(np.array(values, dtype), return_counts=True)
    return moments.compute(different, counts)


@hypothesis.settings(max_examples=150)
@hypothesis.given(st.tuples(_FLOATS, st.just(np.float32)) | st.tuples(_INTEGERS, st.just(np.int64)))
def test_mean_and_variance_are_exact_and_rounded_once(drawn):
    values, dtype = drawn
    found = _of(values, dtype)
    exact = [fractions.Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    assert found.mean == float(mean) and found.variance == float(variance)
    assert (found.count, found.least, found.greatest) == (len(values), min(values), max(values))


@hypothesis.settings(max_examples=50)
@hypothesis.given(_FLOATS, st.integers(0, 100), st.randoms())
def test_parts_in_any_order_give_the_same(values, cut, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    cut = min(cut, len(values))
    parts = _of(shuffled[:cut], np.float32), _of(shuffled[cut:], np.float32)
    assert parts[0].merge(parts[1]) == parts[1].merge(parts[0]) == _of(values, np.float32)


@pytest.mark.parametrize("shift", [0, 1e4, 1e7])
def test_numpy_agrees_where_it_is_accurate_itself(shift):
    values = (np.random.default_rng(0).normal(size=10_000) + shift).astype(np.float32)
    found = _of(values, np.float32)
    exact = values.astype(np.longdouble)
    np.testing.assert_allclose(found.mean, exact.mean(), rtol=1e-15)
    np.testing.assert_allclose(found.variance, exact.var(), rtol=1e-13)


def test_nothing():
    assert moments.Moments().mean is None and moments.Moments().variance is None
    assert _of([], np.int64) == moments.Moments()
