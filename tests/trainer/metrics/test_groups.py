"""Metrics of groups against scikit-learn, every order of ties, and repetition."""

from __future__ import annotations

import itertools
import json
import pathlib

import numpy as np
import pytest

from tests import golden
from trainer.metrics import groups

CONTENT = json.loads((pathlib.Path(golden.__file__).parent / "metrics.json").read_text())
NAMES = ["grouped_auc", "ndcg@10", "mrr@10", "hit_rate@10"]


def _golden(top):
    given = CONTENT["predictions"]
    labels = np.array(given["labels"]) == 1
    scores = np.array(given["positive"], np.float32)
    return groups.rank(np.array(given["groups"]), labels, scores, top=top)


@pytest.mark.parametrize("top", [1, 3, 10, 100])
def test_they_are_those_of_scikit_learn(top):
    truth, ranked = CONTENT["scikit-learn"], _golden(top)
    areas, gains = truth["roc_auc"], truth["ndcg"][str(top)]
    assert ranked.area == pytest.approx(list(areas.values()), abs=1e-6)
    assert ranked.ndcg == pytest.approx(list(gains.values()), abs=1e-6)
    found = groups.compute_metrics(ranked, top)
    sizes = np.bincount(CONTENT["predictions"]["groups"])[list(map(int, areas))]
    weighted = np.average(list(areas.values()), weights=sizes)
    assert found["grouped_auc"].value == pytest.approx(weighted, abs=1e-6)
    assert found[f"ndcg@{top}"].value == pytest.approx(np.mean(list(gains.values())), abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_ties_count_as_every_order_of_them(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    positive, scores = np.arange(count) < rng.integers(1, count), rng.integers(0, 3, count)
    orders = [
        positive[list(order)].tolist()
        for order in itertools.permutations(range(count))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    first = np.array([order.index(True) for order in orders])
    for top in (1, 2, 3, 10):
        ranked = groups.rank(np.zeros(count, int), positive, scores, top=top)
        assert ranked.reciprocal_rank[0] == pytest.approx(np.mean((first < top) / (first + 1)))
        assert ranked.hit[0] == pytest.approx(np.mean(first < top))


def test_groups_without_both_labels_are_left_out_and_counted():
    numbers = np.array([0, 1, 1, 2, 2, 3, 3, 3, -1, -1])
    positive = np.array([1, 1, 1, 0, 0, 0, 1, 0, 1, 0]) == 1
    scores = np.array([5, 1, 2, 1, 2, 3, 2, 1, 9, 9])
    ranked = groups.rank(numbers, positive, scores, top=2)
    assert ranked.counts == groups.GroupCounts(
        groups=4, usable=1, of_one=1, only_positive=1, only_negative=1, short=0, without=2
    )
    assert (ranked.sizes, ranked.area, ranked.reciprocal_rank) == ([3], [0.5], [0.5])
    assert groups.rank(numbers, positive, scores, top=3).counts.short == 1
    found = groups.compute_metrics(ranked, 2)
    assert list(found) == ["grouped_auc", "ndcg@2", "mrr@2", "hit_rate@2"]
    assert all(one.few for one in found.values())


def test_no_group_has_both_labels():
    for count in (0, 3):
        ranked = groups.rank(np.arange(count), np.ones(count, bool), np.zeros(count), top=10)
        assert groups.compute_metrics(ranked, 10) == {}
        assert ranked.counts.of_one == ranked.counts.groups == count


def test_groups_that_are_all_alike_are_as_sure_as_a_share():
    numbers = np.repeat(np.arange(50), 2)
    positive = np.tile([True, False], 50)
    found = groups.compute_metrics(
        groups.rank(numbers, positive, positive.astype(float), top=10), 10
    )
    assert [one.value for one in found.values()] == [1.0] * 4
    assert all(one.low < 0.94 and one.high == 1.0 for one in found.values())


def _drawn(rng, count):
    """Users differ in how many rows they have, how often they click, and what they are scored."""
    sizes = rng.integers(1, 20, count)
    numbers = np.repeat(np.arange(count), sizes)
    of_user = rng.normal(size=count)[numbers]
    positive = rng.random(len(numbers)) < 1 / (1 + np.exp(1.5 - of_user))
    return numbers, positive, rng.normal(size=len(numbers)) + positive + of_user


def test_nineteen_of_twenty_intervals_hold_the_truth():
    rng = np.random.default_rng(1)
    truth = groups.compute_metrics(groups.rank(*_drawn(rng, 50_000), top=10), 10)
    held = {name: [] for name in NAMES}
    for _ in range(200):
        for name, one in groups.compute_metrics(groups.rank(*_drawn(rng, 100), top=10), 10).items():
            held[name].append(one.low <= truth[name].value <= one.high)
    assert all(0.89 <= np.mean(hits) <= 0.995 for hits in held.values())


def test_scores_that_are_not_numbers_come_last():
    ranked = groups.rank(
        np.zeros(3, int), np.array([True, False, False]), np.array([np.nan, 1.0, 2.0]), top=10
    )
    assert (ranked.area, ranked.reciprocal_rank) == ([0.0], [pytest.approx(1 / 3)])


def test_a_group_with_most_of_the_records_is_nearly_all_there_is():
    """The others vary, and it is not known how it would."""
    numbers = np.concatenate([np.repeat(np.arange(20), 2), np.full(2000, 20)])
    rng = np.random.default_rng(8)
    positive = np.concatenate([np.tile([True, False], 20), rng.random(2000) < 0.5])
    found = groups.compute_metrics(groups.rank(numbers, positive, rng.random(2040), top=10), 10)
    area, gain = found["grouped_auc"], found["ndcg@10"]
    assert area.high - area.low > 0.9 and gain.high - gain.low < 0.4
    assert area.units == gain.units == "groups: 21 with both labels, of 2,040 records"
