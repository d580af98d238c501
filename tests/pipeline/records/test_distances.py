"""Bounds of distances hold what NumPy finds on whole columns; levels of chance hold for chance."""

from __future__ import annotations

import collections
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import config
from pipeline.records import distances, manifest
from preprocessing.arrow import arrow_types
from preprocessing.statistics import column_stats
from tests.preprocessing import tables


def _statistics(values, **column) -> manifest.ColumnStatistics:
    """Gathers a column as a run does."""
    kind = "string" if isinstance(values[0], str) else str(np.asarray(values).dtype)
    data = tables.make_config("x", {"label": {"type": kind, **column}}).data
    array = pa.array(values, arrow_types.arrow_type(data.columns["label"]))
    found = column_stats.count_batch(pa.record_batch({"label": array}), "train", data)
    return column_stats.finish(found, data)["train"].columns["label"]


def _ks(a, b) -> float:
    """The greatest difference of the two cumulative shares, at every value there is."""
    places = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(x), places, side="right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _js(a, b) -> float:
    """The root of the mean divergence, base 2, from the mean of both."""
    names = sorted(set(a) | set(b))
    p, q = (np.array([collections.Counter(x)[n] / len(x) for n in names]) for x in (a, b))
    m = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.nansum(x * np.log2(x / m)) for x in (p, q)]
    return math.sqrt(max(0.0, sum(parts) / 2))


RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=5000).astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (NORMAL, NORMAL),
        (NORMAL, NORMAL + np.float32(0.3)),
        (NORMAL, NORMAL * np.float32(2)),
        (NORMAL, np.exp(NORMAL)),
        (NORMAL, NORMAL[:300] - 9),
        (np.zeros(50, np.float32), NORMAL),
        (np.repeat(np.arange(5), [5, 1, 1, 1, 2]), np.arange(5)),
        (RNG.integers(0, 3000, 4000), RNG.integers(500, 3500, 900)),
        (np.array([7]), np.array([7])),
    ],
)
def test_numbers(a, b):
    found = distances.kolmogorov_smirnov(_statistics(a), _statistics(b))
    exact = _ks(a, b)
    assert found.least - 1e-9 <= exact <= found.greatest + 1e-9
    assert found.error <= 0.0101


@settings(max_examples=200)
@given(
    a=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    b=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
)
def test_any_numbers_are_within_the_bounds(a, b):
    one, other = (np.array(x, np.float32) for x in (a, b))
    found = distances.kolmogorov_smirnov(_statistics(one), _statistics(other))
    assert found.least - 1e-9 <= _ks(one, other) <= found.greatest + 1e-9


@settings(max_examples=100)
@given(
    a=st.lists(st.integers(-5000, 5000), min_size=1, max_size=40),
    b=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=40),
)
def test_any_integers_are_within_the_bounds(a, b):
    one, other = (np.array(x, np.int64) for x in (a, b))
    found = distances.kolmogorov_smirnov(_statistics(one), _statistics(other))
    assert found.least - 1e-9 <= _ks(one, other) <= found.greatest + 1e-9


def test_numbers_that_are_narrow_and_far_from_zero():
    seconds = 1_700_000_000 + RNG.integers(0, 1000, 500)
    found = distances.kolmogorov_smirnov(_statistics(seconds), _statistics(seconds + 500))
    assert found.least <= _ks(seconds, seconds + 500) <= found.greatest
    assert found.error <= 0.0101


@pytest.mark.parametrize("bits", [None, 10])
def test_where_percentiles_say_little_the_bounds_are_wide(bits):
    """As in manifests of earlier versions, which kept 10 bits and did not say so."""
    seconds = 1_700_000_000 + RNG.integers(0, 1000, 500)
    size = 2.0**30 / 2**10
    one, other = (
        made.model_copy(
            update={
                "quantiles": tuple(
                    float(np.clip(q // size * size, made.min, made.max)) if 0 < n < 100 else q
                    for n, q in enumerate(made.quantiles)
                ),
                "quantile_bits": bits,
                "vocabulary": None,
            }
        )
        for made in (_statistics(seconds), _statistics(seconds + 500))
    )
    found = distances.kolmogorov_smirnov(one, other)
    assert found.least < 0.1 and found.greatest > 0.9


WORDS = RNG.choice(["a", "b", "c"], 3000, p=[0.7, 0.2, 0.1]).tolist()


@pytest.mark.parametrize(
    "b", [WORDS, WORDS[:100], ["a"], ["x", "y"], RNG.choice(["b", "c", "d"], 500).tolist()]
)
def test_words(b):
    found = distances.jensen_shannon(_statistics(WORDS), _statistics(b))
    assert found.error == 0
    np.testing.assert_allclose(found.middle, _js(WORDS, b), atol=1e-9)


def test_rare_words_that_are_not_listed_widen_the_bounds():
    few, many = RNG.zipf(1.3, 800) % 500, RNG.zipf(1.5, 900) % 500
    a, b = [f"w{x}" for x in few], [f"w{x}" for x in many]
    listed = {"vocabulary": {"top_k": 30}}
    found = distances.jensen_shannon(_statistics(a, **listed), _statistics(b, **listed))
    assert 0 < found.error < 0.5
    assert found.least <= _js(a, b) <= found.greatest


def test_nothing_to_compare():
    number, word = _statistics(NORMAL), _statistics(WORDS)
    assert distances.jensen_shannon(manifest.ColumnStatistics(count=1), word) is None
    assert distances.kolmogorov_smirnov(number, word) is None


def test_missing_shares_are_of_rows():
    one = manifest.ColumnStatistics(count=60, missing=10)
    single, pair = config.Column(type="int64"), config.Column(type="int64", shape=(2,))
    assert distances.compute_missing_share(one, single) == 1 / 7
    assert distances.compute_missing_share(one, pair) == 0.25
    assert distances.compute_missing_share(manifest.ColumnStatistics(count=0), single) == 0


def test_missing_shares_of_lists_are_of_rows_too():
    lengths = manifest.ColumnStatistics(count=30)
    one = manifest.ColumnStatistics(count=500, missing=10, lengths=lengths)
    column = config.Column(type="string", list=True, max_items=99)
    assert distances.compute_missing_share(one, column) == 0.25


def test_chance_stays_below_its_level():
    """A thousand pairs of samples of one distribution: about one may exceed, three hardly do."""
    rng = np.random.default_rng(1)
    exceed = collections.Counter()
    weights = np.arange(1, 21) / 210
    for _ in range(1000):
        a, b = rng.normal(size=(2, 200))
        exceed["KS"] += _ks(a, b) > distances.bound_numbers_by_chance(200, 200)
        drawn = [rng.multinomial(n, weights) for n in (2000, 3000)]
        p, q, counts = drawn[0] / 2000, drawn[1] / 3000, sum(drawn).tolist()
        m = (p + q) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            square = sum(np.nansum(x * np.log2(x / m)) for x in (p, q)) / 2
        exceed["JS"] += math.sqrt(square) > distances.bound_categories_by_chance(2000, 3000, counts)
        shares = rng.binomial(500, 0.2, 2) / 500
        exceed["missing"] += abs(shares[1] - shares[0]) > distances.bound_missing_by_chance(
            share_a=shares[0], n=500, share_b=shares[1], m=500
        )
    assert max(exceed.values()) <= 6, exceed


@pytest.mark.parametrize(("n", "m", "values"), [(16_000, 2400, 3000), (300, 200, 400)])
def test_chance_among_values_that_are_rare(n, m, values):
    """Of which the distance is large though nothing has changed."""
    rng, weights, found = np.random.default_rng(0), np.full(values, 1 / values), []
    for _ in range(200):
        one, other = rng.multinomial(n, weights), rng.multinomial(m, weights)
        middle = (one / n + other / m) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            square = sum(np.nansum(x * np.log2(x / middle)) for x in (one / n, other / m)) / 2
        totals = (one + other)[one + other > 0].tolist()
        found.append(math.sqrt(square) / distances.bound_categories_by_chance(n, m, totals))
    assert max(found) < 1.02 and np.mean(found) > 0.85


def test_chance_of_tiny_sets_is_everything():
    assert (
        distances.bound_numbers_by_chance(1, 0)
        == distances.bound_categories_by_chance(2, 0, [1] * 2)
        == 1
    )
    assert distances.bound_missing_by_chance(share_a=0, n=5, share_b=0, m=5) == 0


@pytest.mark.parametrize("listed", [True, False])
def test_equal_statistics_are_no_distance_apart(listed):
    few = RNG.choice(np.array([0.5, 1.5, 7.25], np.float32), 400, p=[0.06, 0.5, 0.44])
    one = _statistics(few)
    one = one if listed else one.model_copy(update={"vocabulary": None})
    assert distances.kolmogorov_smirnov(one, one) == distances.Distance(0, 0)
    words = _statistics([f"w{x}" for x in RNG.zipf(1.3, 800) % 500], vocabulary={"top_k": 30})
    assert distances.jensen_shannon(words, words) == distances.Distance(0, 0)


def test_numbers_that_are_all_listed_are_compared_exactly():
    a, b = RNG.integers(0, 5, 400).astype(np.float32), RNG.integers(1, 6, 300).astype(np.float32)
    found = distances.kolmogorov_smirnov(_statistics(a), _statistics(b))
    assert found.error == 0 and found.middle == pytest.approx(_ks(a, b))


@pytest.mark.parametrize("vocabulary", [{}, {"vocabulary": {"top_k": 100}}])
@pytest.mark.parametrize(
    ("middle", "spread", "other", "tells"),
    [
        (1e12, 5, 1e12 + 3, False),  # float32 makes all of them one number
        (1e12, 0, 1e12, False),  # it may have been those before
        (1e9, 200, 1e9 + 120, False),
        (1e12, 5, 1.1e12, True),
        (1e12, 5e9, 1e12 + 3e9, True),
        (5.0, 0, 5.0, True),
        (2e6, 0.0, 2e6, True),
    ],
)
def test_what_float32_makes_equal_is_not_taken_for_equal(middle, spread, other, tells, vocabulary):
    noise = np.random.default_rng(3).normal(size=2000)
    a, b = ((center + spread * noise).astype(np.float32) for center in (middle, other))
    found = distances.kolmogorov_smirnov(_statistics(a, **vocabulary), _statistics(b, **vocabulary))
    exact = _ks(middle + spread * noise, other + spread * noise)
    assert found.least - 1e-9 <= exact <= found.greatest + 0.0101
    assert (found.error < 0.02) is tells


_HUGE = 2**62


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    ("a", "b", "tells"),
    [
        (
            _HUGE + np.arange(100),
            _HUGE + np.arange(100, 200),
            True,
        ),  # float64 makes both one number
        (_HUGE + np.arange(100), _HUGE + np.arange(50, 150), False),
        (_HUGE + np.arange(100), _HUGE + np.arange(100), False),
        (2**63 - 1 - np.arange(100), 2**63 - 1 - np.arange(0, 200, 2), False),
        (-_HUGE - np.arange(100), -_HUGE - np.arange(50, 150), False),
        (np.full(50, 2**53 + 1), np.full(50, 2**53 + 2), True),
        (np.arange(_HUGE, 2**63 - 1, 2**56), np.arange(_HUGE, 2**62 + 2**61, 2**56), True),
        (2**53 - np.arange(1, 9), 2**53 - np.arange(1, 9), True),
    ],
)
def test_what_float64_makes_equal_is_not_taken_for_equal(a, b, tells, listed):
    sides = [_statistics(values) for values in (a, b)]
    if not listed:
        sides = [side.model_copy(update={"vocabulary": None}) for side in sides]
    found = distances.kolmogorov_smirnov(*sides)
    exact = float(max(abs(np.mean(a <= place) - np.mean(b <= place)) for place in [*a, *b]))
    assert found.least - 1e-9 <= exact <= found.greatest + 0.0101
    assert (found.error < 0.02) is (tells or listed)


def test_shares_that_are_not_finite_are_of_values():
    some = _statistics(np.array([1.0, np.nan, np.inf, 2.0], np.float32))
    assert distances.compute_not_finite_share(some) == 0.5
    assert distances.compute_not_finite_share(manifest.ColumnStatistics(count=0, missing=3)) == 0
