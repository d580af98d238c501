"""The area under the ROC against every pair, and against the one of TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.heads import area
from trainer.heads.area import AreaUnderRoc
from trainer.metrics import intervals


def _area(labels, probabilities, weights=None, batch=100):
    metric = AreaUnderRoc()
    for start in range(0, len(labels), batch):
        here = slice(start, start + batch)
        metric.update_state(
            labels[here][:, None],
            probabilities[here][:, None],
            None if weights is None else weights[here][:, None],
        )
    return float(metric.result())


def test_a_rare_class_whose_scores_lie_close_together():
    rng = np.random.default_rng(1)
    labels = (rng.random(5000) < 0.02).astype(np.float32)
    logits = -4 + 0.05 * (rng.normal(size=5000) + labels)
    probabilities = (1 / (1 + np.exp(-logits))).astype(np.float32)
    exact = intervals.estimate_area_under_roc(labels, probabilities).value
    of_tensorflow = tf.keras.metrics.AUC()
    of_tensorflow.update_state(labels, probabilities)
    assert abs(float(of_tensorflow.result()) - exact) > 0.02
    assert _area(labels, probabilities) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
def test_scores_of_any_spread(spread, monkeypatch):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 2000).astype(np.float32)
    logits = spread * (rng.normal(size=2000) + labels)
    with np.errstate(over="ignore"):
        probabilities = (1 / (1 + np.exp(-logits))).astype(np.float32)
    exact = intervals.estimate_area_under_roc(labels, probabilities).value
    assert _area(labels, probabilities) == pytest.approx(exact, abs=1e-9)
    # Of more than are kept by one batch, all come from buckets.
    monkeypatch.setattr(area, "_MOST_KEPT", 1900)
    by_buckets = _area(labels, probabilities)
    assert by_buckets != pytest.approx(exact, abs=1e-9)
    assert by_buckets == pytest.approx(exact, abs=2e-4)


def test_weights_count_as_repeated_examples():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 300).astype(np.float32)
    probabilities = rng.random(300).astype(np.float32)
    weights = rng.integers(0, 4, 300)
    often = weights.astype(int)
    repeated = _area(np.repeat(labels, often), np.repeat(probabilities, often))
    assert _area(labels, probabilities, weights.astype(np.float32)) == pytest.approx(repeated)


def test_ties_count_half_and_a_single_label_gives_no_area():
    assert _area(np.array([0.0, 1.0]), np.array([0.5, 0.5], np.float32)) == 0.5
    for label in (0.0, 1.0):
        assert np.isnan(_area(np.array([label, label]), np.array([0.5, 0.7], np.float32)))
    ends = np.array([0.0, 1.0, 0.0, 1.0], np.float32)
    assert _area(np.array([0.0, 1.0, 1.0, 0.0]), ends) == 0.5


def test_reset_state_forgets_all():
    metric = AreaUnderRoc()
    metric.update_state(np.array([0.0, 1.0]), np.array([0.9, 0.1], np.float32))
    metric.reset_state()
    metric.update_state(np.array([0.0, 1.0]), np.array([0.1, 0.9], np.float32))
    assert float(metric.result()) == 1
