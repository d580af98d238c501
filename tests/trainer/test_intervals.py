"""Intervals against published figures, and against repeating the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import intervals


def test_wilson():
    # Newcombe, Two-sided confidence intervals for the single proportion, 1998, table I, method 3.
    for hits, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
    ):
        found = intervals.share(np.arange(n) < hits)
        assert (found.low, found.high) == (
            pytest.approx(low, abs=1e-4),
            pytest.approx(high, abs=1e-4),
        )
        assert found.value == hits / n
    assert intervals.share(np.ones(29, bool)).high == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [
        (lambda rng: intervals.mean(rng.exponential(size=400)), 1.0),
        (lambda rng: intervals.root_mean_square(rng.normal(size=400)), 1.0),
        (lambda rng: intervals.share(rng.random(400) < 0.9), 0.9),
        # Of normal scores one deviation apart: the normal distribution at the root of a half.
        (
            lambda rng: intervals.area_under_roc(
                np.arange(400) % 2, rng.normal(size=400) + np.arange(400) % 2
            ),
            0.76025,
        ),
    ],
    ids=["mean", "root mean square", "share", "area"],
)
def test_nineteen_of_twenty_intervals_hold_the_truth(estimate, truth):
    rng = np.random.default_rng(1)
    found = [estimate(rng) for _ in range(1000)]
    assert 0.93 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.97


def test_area_counts_pairs():
    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 2, 60), rng.integers(0, 8, 60) / 8
    above = [(p > n) + 0.5 * (p == n) for p in scores[labels == 1] for n in scores[labels == 0]]
    assert intervals.area_under_roc(labels, scores).value == pytest.approx(np.mean(above))
    assert intervals.area_under_roc(np.ones(3), np.zeros(3)) is None


def test_one_example():
    assert intervals.mean(np.array([2.0])) == intervals.Estimate(2.0, 2.0, 2.0)
