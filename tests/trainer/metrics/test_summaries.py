"""Counts of batches, against what the definitions give for all examples at once."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from trainer.metrics import intervals
from trainer.metrics.summaries import Binary, Classes, PredictedNumbers


def _in_batches(summary, *arrays, size=97):
    for start in range(0, len(arrays[0]), size):
        summary.add(*(array[start : start + size] for array in arrays))
    return summary


def _scores(count=5000, seed=0, rate=0.3):
    rng = np.random.default_rng(seed)
    labels = (rng.random(count) < rate).astype(np.int64)
    logits = rng.normal(size=count) + 1.5 * labels - 1
    return labels, (1 / (1 + np.exp(-logits))).astype(np.float32)


def _thresholds(labels, scores):
    """Returns false and true positives of calling everything positive from each score on."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.diff(scores[order]) != 0, True)
    return np.cumsum(labels[order] != 1)[ends], np.cumsum(labels[order] == 1)[ends]


@pytest.mark.parametrize("rate", [0.3, 0.004])
def test_the_area_is_how_often_a_positive_scores_higher(rate):
    labels, scores = _scores(rate=rate)
    found = _in_batches(Binary(), labels, scores).thresholds()
    mine = np.trapz([t.recall.value for t in found], [t.false_positive_rate for t in found])
    of_positive, of_negative = scores[labels == 1, None], scores[None, labels == 0]
    exact = np.mean((of_positive > of_negative) + (of_positive == of_negative) / 2)
    assert mine == pytest.approx(exact, abs=2e-4)


def test_every_threshold_is_a_true_one():
    labels, scores = _scores()
    exact = {
        (0, 0),
        *zip(*(counts.tolist() for counts in _thresholds(labels, scores)), strict=True),
    }
    found = _in_batches(Binary(), labels, scores).thresholds()
    assert len(found) > 500
    assert {(t.false_positives, t.true_positives) for t in found} <= exact
    assert (found[0].false_positive_rate, found[0].recall.value) == (0, 0)
    assert (found[-1].false_positive_rate, found[-1].recall.value) == (1, 1)


def test_calibration():
    labels, scores = _scores()
    found = _in_batches(Binary(), labels, scores).calibration()
    tenths = [(n / 10 <= scores) & (scores < (n + 1) / 10) for n in range(10)]
    for one, chosen in zip(found, tenths, strict=True):
        assert one.observed.value == pytest.approx(labels[chosen].mean())
        assert one.predicted == pytest.approx(scores[chosen].astype(float).mean())
    assert [b.count for b in found] == np.histogram(scores, np.linspace(0, 1, 11))[0].tolist()
    mean, share = _in_batches(Binary(), labels, scores).compute_means()
    assert mean == pytest.approx(scores.astype(float).mean())
    assert share == intervals.estimate_share(labels == 1)


def _confusion(labels, predicted):
    classes = range(int(max(labels.max(), predicted.max())) + 1)
    return np.array([[np.sum((labels == a) & (predicted == b)) for b in classes] for a in classes])


def test_confusion_at_a_half():
    labels, scores = _scores()
    scores[:10] = 0.5  # the second of two equal logits is not the larger one
    found = _in_batches(Binary(), labels, scores)
    assert found.confusion.tolist() == _confusion(labels, scores > 0.5).tolist()


def test_certain_scores_and_a_single_label():
    found = Binary()
    found.add(np.array([0, 1]), np.array([0.0, 1.0], np.float32))
    assert [t.recall.value for t in found.thresholds()] == [0, 1, 1]
    assert found.has_both_labels
    alone = Binary()
    alone.add(np.zeros(3, int), np.array([0.1, 0.2, 0.3]))
    assert not alone.has_both_labels and alone.confusion.tolist() == [[3, 0], [0, 0]]


def test_memory_does_not_grow_with_records():
    found = Binary()
    size = len(pickle.dumps(found))
    for seed in range(5):
        found.add(*_scores(10_000, seed))
    assert len(pickle.dumps(found)) == size
    assert found.confusion.sum() == 50_000


def test_classes_are_counted():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 7, 3000)
    predicted = np.where(rng.random(3000) < 0.7, labels, rng.integers(0, 7, 3000))
    found = _in_batches(Classes(), labels, predicted)
    exact = _confusion(labels, predicted)
    everything = found.choose(100)
    assert found.matrix(everything).tolist() == exact.tolist()
    assert found.count == 7 and [found.size(n) for n in range(7)] == exact.sum(axis=1).tolist()
    recalls = np.diag(exact) / exact.sum(axis=1)
    precisions = np.diag(exact) / exact.sum(axis=0)
    assert [found.recall(n).value for n in range(7)] == pytest.approx(recalls)
    assert [found.precision(n).value for n in range(7)] == pytest.approx(precisions)
    wrong = exact - np.diag(np.diag(exact))
    top = found.top_confusions(3)
    assert [one.count for one in top] == sorted(wrong.ravel().tolist())[::-1][:3]
    assert all(wrong[one.label, one.predicted] == one.count for one in top)


def test_of_many_classes_those_with_the_most_errors_are_chosen():
    labels = np.repeat(np.arange(50), 10)
    predicted = labels.copy()
    predicted[labels == 33] = 44
    found = _in_batches(Classes(), labels, predicted)
    assert found.choose(2) == [33, 44] and found.count == 50
    assert found.precision(33) is None and found.recall(33).value == 0


def test_numbers_are_counted_as_numpy_does():
    rng = np.random.default_rng(2)
    labels = rng.normal(size=4000) * 10
    predictions = labels + rng.normal(size=4000) * 3 + 0.5
    low, high = np.quantile(labels, [0.01, 0.99])
    found = _in_batches(PredictedNumbers(low, high), labels, predictions)
    inside = (labels >= low) & (labels <= high) & (predictions >= low) & (predictions <= high)
    assert (found.count, found.beyond) == (4000, 4000 - inside.sum())
    edges = np.linspace(low, high, 41)
    clipped = [np.clip(x, low, high) for x in (predictions, labels)]
    assert found.map.tolist() == np.histogram2d(*clipped, [edges, edges])[0].tolist()
    residuals = np.clip(predictions - labels, -found.reach, found.reach)
    wanted = np.histogram(residuals, np.linspace(-found.reach, found.reach, 42))[0]
    assert found.residuals.tolist() == wanted.tolist()


def test_deciles_of_predictions():
    rng = np.random.default_rng(3)
    predictions = rng.exponential(size=5000) * 4
    labels = predictions * 0.9 + rng.normal(size=5000)
    low, high = np.quantile(labels, [0.01, 0.99])
    deciles = _in_batches(PredictedNumbers(low, high), labels, predictions).deciles()
    assert sum(d.count for d in deciles) == 5000
    assert all(abs(d.count - 500) <= 25 for d in deciles)
    order = np.argsort(predictions)
    done = 0
    for d in deciles:
        chosen = order[done : done + d.count]
        done += d.count
        r = predictions[chosen] - labels[chosen]
        # Where bins end differs from where the sorted examples do by a few examples.
        assert d.predicted == pytest.approx(predictions[chosen].mean(), rel=1e-6)
        assert d.observed == pytest.approx(labels[chosen].mean(), rel=1e-6)
        assert d.residual.value == pytest.approx(r.mean(), abs=1e-6)
        assert d.rmse == pytest.approx(math.sqrt((r**2).mean()), rel=1e-6)
        half = 1.965 * r.std(ddof=1) / math.sqrt(d.count)
        assert d.residual.high - d.residual.value == pytest.approx(half, rel=0.01)


def test_equal_predictions_and_odd_numbers():
    found = PredictedNumbers(3.0, 3.0)
    found.add(np.array([3.0, 4.0, math.nan]), np.array([3.0, 3.0, 3.0]))
    (one,) = found.deciles()
    assert (one.count, one.observed, one.residual.value) == (2, 3.5, -0.5)
    found.add(np.array([1.0]), np.array([math.inf]))
    assert found.count == 2
    assert PredictedNumbers(0, 1).deciles() == []


def test_probabilities_that_are_none_are_left_out():
    found = Binary()
    found.add(np.array([0, 1, 1, 0]), np.array([0.2, np.nan, 0.9, -3.0], np.float32))
    assert found.confusion.tolist() == [[1, 0], [0, 1]]
    assert sum(one.count for one in found.calibration()) == 2
