"""Intervals against published figures, and against repeating the experiment."""

from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np
import pytest

from trainer.metrics import intervals


def test_the_interval_of_a_share_stays_in_its_range():
    for n in range(1, 3000):
        assert intervals.wilson(n, n).high == 1 and intervals.wilson(0, n).low == 0


def test_wilson():
    # Newcombe, Two-sided confidence intervals for the single proportion, 1998, table I, method 3.
    for hits, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
    ):
        found = intervals.estimate_share(np.arange(n) < hits)
        assert (found.low, found.high) == (
            pytest.approx(low, abs=1e-4),
            pytest.approx(high, abs=1e-4),
        )
        assert found.value == hits / n
    assert intervals.estimate_share(np.ones(29, bool)).high == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [
        (lambda rng: intervals.estimate_mean(rng.exponential(size=400)), 1.0),
        (lambda rng: intervals.estimate_root_mean_square(rng.normal(size=400)), 1.0),
        (lambda rng: intervals.estimate_share(rng.random(400) < 0.9), 0.9),
        # Of normal scores one deviation apart: the normal distribution at the root of a half.
        (
            lambda rng: intervals.estimate_area_under_roc(
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


@pytest.mark.parametrize(
    ("sigma", "count", "held"),
    [(1, 30, 0.88), (1, 300, 0.93), (2, 30, 0.81), (2, 300, 0.88), (2, 3000, 0.92)],
)
@pytest.mark.parametrize("estimate", [intervals.estimate_mean, intervals.estimate_plain_mean])
def test_intervals_of_means_hold_the_truth_of_skewed_values(estimate, sigma, count, held):
    """Of lognormal errors those of Student held it 0.67 and 0.80 of the times for sigma 2."""
    rng = np.random.default_rng(7)
    found = [estimate(rng.lognormal(0, sigma, count)) for _ in range(1000)]
    truth = np.exp(sigma**2 / 2)
    assert held <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.97


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_interval_reaches_further_on_the_side_of_rare_large_values(sign):
    values = sign * np.array([*np.full(50, 0.1), 0.2, 20.0])
    found = intervals.estimate_plain_mean(values)
    far, near = sorted((found.high - found.value, found.value - found.low), reverse=True)
    assert far > 1.5 * near
    assert (found.high - found.value == far) == (sign > 0)


def test_area_counts_pairs():
    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 2, 60), rng.integers(0, 8, 60) / 8
    above = [(p > n) + 0.5 * (p == n) for p in scores[labels == 1] for n in scores[labels == 0]]
    assert intervals.estimate_area_under_roc(labels, scores).value == pytest.approx(np.mean(above))
    assert intervals.estimate_area_under_roc(np.ones(3), np.zeros(3)) is None


@pytest.mark.parametrize(
    ("positive", "negative", "apart"),
    [(2, 2, 1.0), (3, 12, 2.3), (20, 400, 2.3), (5, 50, 0.0), (20, 20, 3.3)],
)
def test_intervals_of_areas_hold_the_truth_for_few_and_uneven_examples(positive, negative, apart):
    rng = np.random.default_rng(3)
    labels = np.arange(positive + negative) < positive
    truth = statistics.NormalDist().cdf(apart / 2**0.5)
    found = [
        intervals.estimate_area_under_roc(labels, rng.normal(size=len(labels)) + apart * labels)
        for _ in range(500)
    ]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93


def test_four_examples_prove_no_perfect_area():
    found = intervals.estimate_area_under_roc(np.array([0, 0, 1, 1]), np.arange(4))
    assert (found.value, found.few) == (1.0, True)
    assert found.low < 0.5 and found.high == 1.0


@pytest.mark.parametrize(("positive", "negative"), [(20, 30), (15, 60)])
@pytest.mark.parametrize("area", [0.0, 1.0])
def test_a_perfect_area_has_the_interval_of_newcombe(positive, negative, area):
    """His fifth method (Statistics in Medicine, 2006): at its end the area is 1.96 deviations off,
    by the variance of Hanley and McNeil for exponential scores and equal numbers of both labels."""
    labels = np.repeat([1, 0], [positive, negative])
    found = intervals.estimate_area_under_roc(labels, labels if area else 1 - labels)
    end = found.low if area else found.high
    others = (positive + negative) / 2 - 1
    both = others * (1 - end) / (2 - end) + others * end / (1 + end)
    variance = end * (1 - end) * (1 + both) / (positive * negative)
    assert found.value == area
    assert abs(area - end) == pytest.approx(1.96 * math.sqrt(variance), rel=1e-3)


def test_an_area_is_as_sure_as_the_scores_that_lie_uneven():
    """DeLong's variance by its definition, pair by pair, of scores that are far from normal."""
    rng = np.random.default_rng(4)
    labels = rng.random(800) < 0.06
    scores = np.where(labels, rng.choice([0.0, 5.0], 800), 0.0) + rng.normal(size=800) ** 3
    pairs = scores[labels][:, None] > scores[~labels][None, :]
    deviation = np.sqrt(
        pairs.mean(1).var(ddof=1) / labels.sum() + pairs.mean(0).var(ddof=1) / (~labels).sum()
    )
    found = intervals.estimate_area_under_roc(labels, scores)
    assert found.high - found.low > 0.98 * 2 * 1.96 * deviation


def test_one_example():
    assert intervals.estimate_mean(np.array([2.0])) == intervals.MetricEstimate(
        2.0, 2.0, 2.0, few=True, units="records: 1"
    )


def test_means_of_errors_are_above_zero():
    found = intervals.estimate_root_mean_square(np.array([*np.full(50, 0.01), 20.0]))
    assert 0 < found.low < found.value < found.high


@pytest.mark.parametrize("error", [0.0, 0.3, 1e9])
@pytest.mark.parametrize("estimate", [intervals.estimate_mean, intervals.estimate_root_mean_square])
def test_errors_that_are_all_alike_have_no_interval(estimate, error):
    found = estimate(np.full(50, error))
    assert (found.value, found.few, found.alike) == (pytest.approx(error), True, True)
    assert found.low == found.high == found.value
    few = estimate(np.full(5, error))
    assert (few.few, few.alike) == (True, False)


@pytest.mark.parametrize("area", [0, 1])
def test_groups_count_at_the_edges_of_an_area(area):
    labels, groups = np.arange(80) % 2, np.arange(80) // 2
    scores = labels if area else -labels
    whole = intervals.estimate_area_under_roc(labels, scores)
    each = intervals.estimate_area_under_roc(labels, scores, groups)
    assert (each.value, each.low, each.high) == (area, whole.low, whole.high)
    for count, few in ((2, True), (9, True), (20, False)):
        found = intervals.estimate_area_under_roc(labels, scores, groups % count)
        alone = np.repeat([0, 1], count)
        once = intervals.estimate_area_under_roc(alone, alone if area else -alone)
        assert (found.low, found.high, found.few) == (once.low, once.high, few)


def test_positives_of_few_groups_are_few():
    labels = np.arange(200) < 100
    groups = np.where(labels, 0, np.arange(200))
    scores = labels + np.random.default_rng(5).normal(size=200)
    assert intervals.estimate_area_under_roc(labels.astype(int), scores, groups).few
    assert not intervals.estimate_area_under_roc(labels.astype(int), scores).few


@pytest.mark.parametrize("hit", [False, True])
def test_groups_count_at_the_edges_of_a_share(hit):
    for count, few in ((2, True), (20, False)):
        found = intervals.estimate_share(np.full(80, hit), np.arange(80) % count)
        assert found == intervals.wilson(count * hit, count, examples=80)
        assert found.few == few
    assert intervals.estimate_share(np.ones(0, bool), np.zeros(0, int)) == intervals.wilson(
        0, 0, examples=0
    )


def test_groups_that_are_all_alike_leave_the_interval_of_examples():
    hits, groups = np.arange(80) % 2 == 0, np.arange(80) // 2
    found = intervals.estimate_share(hits)
    told = dataclasses.replace(found, units="groups: 40, of 80 records")
    assert intervals.estimate_share(hits, groups) == told


def test_student():
    # The usual table of 97.5 % points.
    for freedom, point in ((4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)):
        assert intervals.student_t(freedom) == pytest.approx(point, abs=0.01)


def test_the_interval_of_few_examples_or_groups_is_that_of_student():
    """Of a mean, whose influence values are the distances from it; 2.571 is the point of t(5)."""
    values = np.array([1.0, 2.0, 4.0, 7.0, 8.0, 8.0])
    mean, error = float(values.mean()), float(values.std(ddof=1)) / 6**0.5
    found = intervals.estimate_by_influence(mean, values - mean, intervals.PLAIN)
    assert (found.value, found.few) == (mean, True)
    assert found.high - mean == pytest.approx(2.571 * error, rel=5e-3)
    assert mean - found.low == pytest.approx(2.571 * error, rel=5e-3)
    # Each example ten times says no more, if it is known that they belong together.
    again, groups = np.repeat(values, 10), np.repeat(np.arange(6), 10)
    grouped = intervals.estimate_by_influence(mean, again - mean, intervals.PLAIN, groups=groups)
    assert (grouped.low, grouped.high) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(("units", "held"), [(5, 0.91), (20, 0.92), (200, 0.93)])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_means_of_groups_hold_the_truth_of_few_and_uneven_ones(units, held, weighted):
    """With weights, one group has most of the examples, and so nearly is the estimate."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(1000):
        sizes = 1 + rng.poisson(5.0, units)
        if weighted:
            sizes[0] = 10 * units
        values = rng.beta(8, 2, units)
        found.append(intervals.estimate_fraction(values, weights=sizes if weighted else None))
    assert held <= np.mean([one.low <= 0.8 <= one.high for one in found]) <= 1


def test_groups_that_are_nearly_alike_are_as_many_as_they_are():
    values = np.array([0.8, 0.801, 0.799, 0.8, 0.802])
    found = intervals.estimate_fraction(values)
    half = 2.776 * values.std(ddof=1) / 5**0.5
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-2)
    assert found.few and found.units == "records: 5"


def test_student_of_one_and_two_degrees_of_freedom():
    assert intervals.student_t(0.4) == intervals.student_t(1) == pytest.approx(12.706, abs=1e-3)
    assert intervals.student_t(2) == pytest.approx(4.303, abs=1e-3)
    assert intervals.student_t(3) == pytest.approx(3.182, abs=6e-3)


def test_what_is_independent_is_told():
    hits, groups = np.arange(80) % 2 == 0, np.arange(80) // 20
    assert intervals.estimate_share(hits).units == "records: 80"
    assert intervals.estimate_share(hits, groups).units == "groups: 4, of 80 records"
    area = intervals.estimate_area_under_roc(np.arange(80) // 76, np.arange(80) % 7)
    assert (area.few, area.units) == (True, "records: 4 of one label")


@pytest.mark.parametrize("estimate", [intervals.estimate_mean, intervals.estimate_root_mean_square])
def test_few_errors_carry_their_mean(estimate):
    rng = np.random.default_rng(8)
    heavy = [estimate(rng.lognormal(0, 3, 2400)) for _ in range(20)]
    light = [estimate(abs(rng.normal(size=1000))) for _ in range(20)]
    assert sum(one.few_carry for one in heavy) >= 18 and not any(one.few_carry for one in light)
    assert not intervals.estimate_mean(rng.lognormal(0, 2, 9)).few_carry  # too few anyway


@pytest.mark.parametrize(("sigma", "count"), [(0.6, 300), (1.2, 2400), (2, 300), (2, 2400)])
def test_an_interval_that_misses_the_truth_of_skewed_errors_is_marked(sigma, count):
    """Of squared lognormal errors up to half of the intervals miss it."""
    rng, missed = np.random.default_rng(9), 0
    for _ in range(500):
        found = intervals.estimate_mean(rng.lognormal(0, 2 * sigma, count))
        inside = found.low <= np.exp(2 * sigma**2) <= found.high
        missed += not inside and not found.few_carry
    assert missed <= 0.08 * 500


def test_a_fraction_of_zeros_and_ones_has_the_interval_of_a_share():
    """As hit rates have, one value a group."""
    values = np.repeat([0.0, 1.0], [2, 19])
    assert intervals.estimate_fraction(values) == intervals.wilson(19, 21)


def test_intervals_of_shares_of_uneven_groups_hold_and_are_no_wider_than_needed():
    """Few of 400 users, about 12 if all had as many, have most of the records. Hall's interval
    would be a third wider, and hold no more often."""
    rng = np.random.default_rng(3)
    shares = 1 / np.arange(1, 401) ** 1.2
    drawn = rng.normal(1, 1, 1_000_000)
    truth = float(np.mean(1 / (1 + np.exp(-drawn))))
    found = []
    for _ in range(500):
        users = rng.choice(400, 2000, p=shares / shares.sum())
        hits = rng.random(2000) < (1 / (1 + np.exp(-rng.normal(1, 1, 400))))[users]
        found.append(intervals.estimate_share(hits, np.unique(users, return_inverse=True)[1]))
    assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.92
    needed = 2 * 2.2 * np.std([each.value for each in found])  # 2.2 is the point of t(11)
    assert np.mean([each.high - each.low for each in found]) < 1.1 * needed
