"""Metrics of the positive class, also where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics

from trainer.heads.of_positives import Precision, Recall

v1 = tf.compat.v1


def _of(metric, labels, answers):
    with tf.Graph().as_default(), v1.Session() as session:
        made = metric()
        update = made.update_state(tf.constant(labels), tf.constant(answers))
        session.run(v1.variables_initializer(made.variables))
        session.run(update)
        return session.run(made.result())


def test_where_they_are_defined_they_are_those_of_others():
    rng = np.random.default_rng(3)
    answers = rng.random(500).astype(np.float32)
    labels = (rng.random(500) < answers).astype(np.float32)
    named = (answers > 0.5).astype(np.float32)
    assert _of(Precision, labels, named) == pytest.approx(metrics.precision_score(labels, named))
    assert _of(Recall, labels, named) == pytest.approx(metrics.recall_score(labels, named))


def test_without_positives_they_are_not_defined():
    none, all_wrong = np.zeros(9, np.float32), np.ones(9, np.float32)
    assert np.isnan(_of(Recall, none, all_wrong)) and np.isnan(_of(Precision, none, none))
    assert _of(Precision, none, all_wrong) == 0.0
