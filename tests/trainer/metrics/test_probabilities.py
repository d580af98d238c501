"""Metrics of probabilities against scikit-learn, and their intervals against repetition."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest

from tests import golden
from trainer.metrics import intervals, probabilities
from trainer.metrics.probabilities import Scored

GOLDEN = pathlib.Path(golden.__file__).parent / "metrics.json"


def _scored(positive, probability, groups=None):
    likelihood = np.where(positive, probability, 1 - probability)
    return Scored(positive, probability, likelihood, groups)


def _drawn(rng, count, rate=0.3):
    positive = rng.random(count) < rate
    logits = rng.normal(size=count) + 1.5 * positive + math.log(rate / (1 - rate)) - 0.75
    return _scored(positive, 1 / (1 + np.exp(-logits)))


def test_they_are_those_of_scikit_learn():
    content = json.loads(GOLDEN.read_text())
    given, truth = content["predictions"], content["scikit-learn"]
    negative, positive = (np.array(given[n], np.float32) for n in ("negative", "positive"))
    labels = np.array(given["labels"]) == 1
    scored = Scored(labels, positive, np.where(labels, positive, negative))
    found, _ = probabilities.compute_metrics(scored, 0.3)
    for name in ("log_loss", "average_precision"):
        assert found[name].value == pytest.approx(truth[name], abs=1e-6)
    rate = np.mean(labels)
    base = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    assert found["normalized_entropy"].value == pytest.approx(truth["log_loss"] / base, abs=1e-6)
    mean = np.mean(positive.astype(float))
    assert found["calibration"].value == pytest.approx(mean / rate, abs=1e-9)


@pytest.mark.parametrize(("count", "rate"), [(400, 0.3), (1500, 0.03)])
def test_nineteen_of_twenty_intervals_hold_the_truth(count, rate):
    rng = np.random.default_rng(1)
    truth, _ = probabilities.compute_metrics(_drawn(rng, 200_000, rate), rate)
    held = {name: [] for name in probabilities.NAMES}
    for _ in range(200):
        found, _ = probabilities.compute_metrics(_drawn(rng, count, rate), rate)
        for name, one in found.items():
            held[name].append(one.low <= truth[name].value <= one.high)
    assert all(0.89 <= np.mean(hits) <= 0.99 for hits in held.values())


def test_examples_of_a_group_are_not_independent():
    """Each example ten times, as a group: the intervals are those of the examples once."""
    once = _drawn(np.random.default_rng(2), 300)
    again = [np.repeat(x, 10) for x in (once.positive, once.probability)]
    many, _ = probabilities.compute_metrics(_scored(*again, np.repeat(np.arange(300), 10)), 0.3)
    for name, one in probabilities.compute_metrics(once, 0.3)[0].items():
        assert many[name].value == pytest.approx(one.value)
        assert (many[name].low, many[name].high) == pytest.approx((one.low, one.high), rel=1e-6)


def test_the_baseline_says_the_share_of_the_split():
    scored = _scored(np.arange(20) < 5, np.full(20, 0.5))
    _, baseline = probabilities.compute_metrics(scored, 0.4)
    loss = -0.25 * math.log(0.4) - 0.75 * math.log(0.6)
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert baseline == pytest.approx(
        {
            "log_loss": loss,
            "normalized_entropy": loss / entropy,
            "calibration": 0.4 / 0.25,
            "average_precision": 0.25,
        }
    )


@pytest.mark.parametrize(("label", "names"), [(0, ["log_loss"]), (1, ["log_loss", "calibration"])])
def test_one_label_alone(label, names):
    found, baseline = probabilities.compute_metrics(
        _scored(np.full(30, label == 1), np.full(30, 0.5)), 0.3
    )
    assert list(found) == names == list(baseline)
    assert found["log_loss"].value == pytest.approx(math.log(2))


def test_certain_and_wrong_is_clipped_as_by_scikit_learn():
    wrong = Scored(np.array([True]), np.zeros(1, np.float32), np.zeros(1, np.float32))
    found = probabilities.compute_metrics(wrong, 1.0)[0]["log_loss"]
    assert found.value == pytest.approx(-math.log(2**-23))
    assert found.few


def test_a_perfect_ranking_is_not_certain():
    scored = _scored(np.arange(40) >= 28, np.arange(1, 41) / 41)
    found = probabilities.compute_metrics(scored, 0.3)[0]["average_precision"]
    assert (found.value, found.high, found.few) == (1.0, 1.0, False)
    assert found.low == intervals.wilson(12, 12).low < 0.8
    for count, positives in ((776, 375), (788, 392), (1000, 333), (49, 7)):
        scored = _scored(np.arange(count) >= count - positives, np.arange(1, count + 1) / 1001)
        found = probabilities.compute_metrics(scored, 0.3)[0]["average_precision"]
        assert found.value == 1 and found.low == intervals.wilson(positives, positives).low


def test_the_baseline_of_one_class_is_zero_and_positive():
    assert math.copysign(1, probabilities.entropy(0.0, 0.0)) == 1
    assert probabilities.entropy(0.0, 0.0) == 0


def test_predictions_that_are_not_numbers():
    found, _ = probabilities.compute_metrics(_scored(np.arange(30) < 9, np.full(30, math.nan)), 0.3)
    assert all(math.isnan(one.value) and one.few for one in found.values())


@pytest.mark.parametrize("positives", [40, 24])
def test_saturated_and_perfect_predictions_are_not_certain(positives):
    """Others may be wrong: that these losses do not vary says nothing of how much they cost."""
    positive = np.arange(80) < positives
    found, _ = probabilities.compute_metrics(_scored(positive, positive.astype(np.float32)), 0.5)
    for name in ("log_loss", "normalized_entropy", "calibration"):
        assert (found[name].few, found[name].alike) == (True, True), name
    assert found["average_precision"].low < 0.95 and not found["average_precision"].few


def test_a_perfect_ranking_of_two_groups_says_nothing():
    scored = _scored(np.arange(80) % 2 == 1, np.arange(80) % 2 * 0.5 + 0.25, np.arange(80) // 40)
    found = probabilities.compute_metrics(scored, 0.5)[0]["average_precision"]
    assert found.few and found.low == intervals.wilson(2, 2).low


def test_positives_of_few_groups_are_few():
    positive, groups = np.arange(200) < 100, np.maximum(0, np.arange(200) - 99)
    probability = np.random.default_rng(7).random(200)
    found, _ = probabilities.compute_metrics(_scored(positive, probability, groups), 0.5)
    assert found["calibration"].few and found["average_precision"].few
    assert not found["log_loss"].few
