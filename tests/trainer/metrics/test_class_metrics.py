"""Metrics of classes over parts of a split."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.models.base import metrics_of_groups
from trainer.metrics import class_metrics, intervals
from trainer.metrics.class_metrics import Answers


def _answers(count=400, grouped=True):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    probability = rng.random(count)
    return Answers(
        labels,
        (probability > 0.5).astype(int),
        probability,
        np.where(labels == 1, probability, 1 - probability),
        rng.integers(-1, 40, count) if grouped else None,
    )


def test_ids_become_numbers():
    assert class_metrics.number_groups(np.array([70, -9, 70, 5]), missing=-9).tolist() == [
        2,
        -1,
        2,
        1,
    ]


def test_records_in_no_group_are_independent():
    one = Answers(np.zeros(4), np.zeros(4), groups=np.array([1, -1, 1, -1]))
    assert len(np.unique(one.units)) == 3 and one.units[0] == one.units[2]
    assert Answers(np.zeros(4), np.zeros(4)).units is None


def test_a_part_has_the_metrics_of_its_records_and_the_baseline_of_the_split():
    answers, chosen = _answers(), np.arange(400) % 3 == 0
    found, baseline = class_metrics.build_mask_metrics(answers, 3)(chosen)
    alone, _ = class_metrics.build_mask_metrics(answers.select(chosen), 3)(
        np.ones(chosen.sum(), bool)
    )
    assert {n: x.value for n, x in found.items()} == pytest.approx(
        {n: x.value for n, x in alone.items()}
    )
    assert found.keys() == baseline.keys() > set(metrics_of_groups(3))
    assert baseline["grouped_auc"] == baseline["auc"] == 0.5
    assert 0 < baseline["mrr@3"] < baseline["hit_rate@3"] <= 1


def test_groups_widen_intervals_and_change_no_value():
    """Each record ten times, as a group: no surer than once."""
    once = _answers(grouped=False)
    many = Answers(*(np.repeat(x, 10) for x in (once.labels, once.classes, once.probability)))
    many = Answers(
        many.labels,
        many.classes,
        many.probability,
        np.repeat(once.likelihood, 10),
        np.repeat(np.arange(400), 10),
    )
    every, single = (
        class_metrics.build_mask_metrics(one, 10)(np.ones(len(one.labels), bool))[0]
        for one in (many, once)
    )
    for name, one in single.items():
        assert every[name].value == pytest.approx(one.value)
        assert every[name].high - every[name].low > 0.9 * (one.high - one.low), name
    assert intervals.estimate_share(many.classes == many.labels).high < every["accuracy"].high


def test_what_is_reported_to_readers():
    answers = _answers()
    slices = [("all", dict.fromkeys(["auc"])), ("a=1", {})]
    told = list(class_metrics.explain(answers, slices, "user", top=10))
    assert told[0].startswith("Only one label occurs in all records: log_loss, ")
    assert told[2].startswith("Groups by user that hold both labels and count in ")
    assert told[-1] == (
        "No group with both labels is in all records, a=1: grouped_auc, ndcg@10, mrr@10, "
        "hit_rate@10 are not defined there."
    )
    of_classes = Answers(answers.labels, answers.classes)
    assert list(class_metrics.explain(of_classes, slices, None, top=10)) == []
