"""The metrics of a model and their intervals, or why they have none."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from trainer.metrics import class_metrics, intervals, reported
from trainer.metrics.class_metrics import Answers
from trainer.metrics.slice_metrics import SliceResult

EMPTY = SliceResult([])


def answers(count, groups=None, seed=1):
    rng = np.random.default_rng(seed)
    labels = (rng.random(count) < 0.3).astype(int)
    chance = 1 / (1 + np.exp(-rng.normal(size=count) - 2 * labels + 1))
    likelihood = np.where(labels == 1, chance, 1 - chance)
    return Answers(labels, (chance > 0.5).astype(int), chance, likelihood, groups)


def result(split, **values):
    whole, _ = class_metrics.build_mask_metrics(split, 10)(np.ones(len(split.labels), bool))
    return SliceResult([], reported=class_metrics.list_reported_metrics(split, whole), **values)


def metrics_of(split):
    """What the heads of tf.estimator report of two classes."""
    hits = split.classes == split.labels
    loss = float(np.mean(-np.log(split.likelihood)))
    return {
        "accuracy": float(np.mean(hits)),
        "accuracy_baseline": float(np.mean(split.labels == 0)),
        "average_loss": loss,
        "label/mean": float(np.mean(split.labels)),
        "loss": loss,
        "precision": float(np.mean(split.labels[split.classes == 1])),
        "prediction/mean": float(np.mean(split.probability)),
        "recall": float(np.mean(split.classes[split.labels == 1])),
        "global_step": 20.0,
    }


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
def test_every_metric_of_two_classes_has_an_interval_around_it(groups):
    split = answers(300, groups)
    metrics = metrics_of(split)
    found = reported.find_intervals(metrics, {None: result(split)})
    assert found.keys() == metrics.keys() - {"global_step"}
    for name, (low, high) in found.items():
        assert low < metrics[name] < high, name


def test_several_labels_have_metrics_of_their_own():
    split = answers(300)
    metrics = {f"click/{name}": value for name, value in metrics_of(split).items()}
    found = reported.find_intervals(
        {**metrics, "loss": 3.0}, {"click": result(split), "buy": EMPTY}
    )
    assert all(isinstance(found[f"click/{name}"], list) for name in ("accuracy", "label/mean"))
    assert found["loss"] == reported.OWN


def test_what_is_not_of_single_records_says_so():
    split = answers(300)
    for results in ({}, {None: EMPTY}):
        assert reported.find_intervals({"top_10": 0.3}, results) == {"top_10": reported.OWN}
    other = {"accuracy": 0.99, "regularized": 1.0}  # of the user's own
    assert set(reported.find_intervals(other, {None: result(split)}).values()) == {reported.OWN}
    undefined = reported.find_intervals({"ndcg@10": math.nan}, {None: result(split)})
    assert undefined == {"ndcg@10": reported.UNDEFINED}


def test_a_loss_with_more_than_errors_has_none():
    split = answers(300)
    metrics = metrics_of(split)
    found = reported.find_intervals(
        {**metrics, "loss": metrics["loss"] + 0.1}, {None: result(split)}
    )
    assert found["loss"] == reported.MORE and isinstance(found["average_loss"], list)


def test_weights_are_not_in_the_intervals():
    split = answers(300)
    weighted = {**metrics_of(split), "accuracy": 0.5}
    found = reported.find_intervals(weighted, {None: result(split)}, weighted=True)
    assert found["accuracy"] == reported.WEIGHTED


def test_too_few_say_how_many_records_and_groups():
    one = answers(8)
    found = reported.find_intervals(metrics_of(one), {None: result(one)})
    assert found["accuracy"] == "too few records: 8"
    split = answers(300, np.arange(300) // 60)
    found = reported.find_intervals(metrics_of(split), {None: result(split)})
    assert found["accuracy"] == "too few groups: 5, of 300 records"
    assert found["average_loss"] == "too few groups: 5, of 300 records"


def test_too_few_of_one_label_say_so():
    split = answers(100)
    few = dataclasses.replace(split, labels=(np.arange(100) < 4).astype(int))
    whole, _ = class_metrics.build_mask_metrics(few, 10)(np.ones(100, bool))
    found = reported.find_intervals({"auc": whole["auc"].value}, {None: result(few)})
    assert found["auc"] == "too few records: 4 of one label"


def test_all_alike_say_so():
    sure = Answers(np.arange(50) % 2, np.arange(50) % 2, np.arange(50) % 2 * 1.0, np.ones(50))
    value = result(sure).reported["log_loss"].value
    found = reported.find_intervals({"average_loss": value}, {None: result(sure)})
    assert found["average_loss"] == "unknown: all alike"


def test_an_interval_of_every_other_record_is_that_of_all():
    split = answers(20_000)
    every = split.select(np.arange(20_000) % 2 == 0)
    metrics = metrics_of(split)
    exact = reported.find_intervals(metrics, {None: result(split)})
    sampled = reported.find_intervals(metrics, {None: result(every, every=2)})
    for name, (low, high) in exact.items():
        assert sampled[name] == pytest.approx([low, high], abs=0.1 * (high - low)), name
        assert sampled[name][0] < metrics[name] < sampled[name][1]


def test_numbers_and_many_classes():
    rng = np.random.default_rng(3)
    chances = rng.dirichlet(np.ones(5), 400)
    labels = rng.integers(0, 5, 400)
    split = Answers(labels, chances.argmax(1), None, chances[np.arange(400), labels])
    found = result(split).reported
    assert found["average_loss"].value == pytest.approx(np.mean(-np.log(split.likelihood)))
    assert found["average_loss"] == intervals.estimate_mean(-np.log(split.likelihood))


def test_a_model_that_diverged_has_none():
    split = answers(300)
    nothing = np.full(300, np.nan)
    lost = dataclasses.replace(split, probability=nothing, likelihood=nothing)
    metrics = {"average_loss": math.nan, "prediction/mean": math.nan, "auc": math.nan}
    found = reported.find_intervals(metrics, {None: result(lost)})
    assert all(isinstance(ends, str) for ends in found.values())


@pytest.mark.parametrize(
    ("units", "named"), [("records: 300", "records"), ("groups: 12", "groups")]
)
def test_a_metric_that_few_records_carry_has_a_remark(units, named):
    carried = intervals.MetricEstimate(0.5, 0.4, 0.6, few_carry=True, units=units)
    found = reported.find_intervals(
        {"rmse": 0.5}, {None: SliceResult([], reported={"rmse": carried})}
    )
    remark = f"few {named} carry this error: the interval may be too narrow"
    assert found == {"rmse": [0.4, 0.6, remark]}
