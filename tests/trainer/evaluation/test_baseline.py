"""What a constant answer reaches, against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipeline.records import manifest
from tests.pipeline.feature_tables import contents, make, statistics
from trainer.evaluation import baseline

LABELS = np.random.default_rng(3).normal(50.0, 7.0, 200)
NUMBER = {"name": "linear", "params": {"task": "regression"}}
FEATURES = {"time": {"steps": ["z_score"]}}


def _baselines(statistics_of_label, reported, *, excluded=None, label=None, model=None):
    job = make(FEATURES, label, model=model or {"name": "linear", "params": {"classes": 3}})
    found = manifest.Statistics(columns={"late": statistics_of_label})
    described = contents(job).model_copy(update={"statistics": {"test": found}})
    return baseline.compute_metrics(job, described, excluded or {}, evaluations={"test": reported})


def _classes(*counts, count=None):
    vocabulary = tuple(enumerate(counts))
    return manifest.ColumnStatistics(count=count or sum(counts), vocabulary=vocabulary)


def test_of_numbers_it_is_the_error_of_the_mean():
    found = _baselines(statistics(LABELS), {"average_loss": 3.0}, model=NUMBER)
    constant = np.full(len(LABELS), LABELS.mean())
    truth = sklearn_metrics.mean_squared_error(LABELS, constant)
    assert found == {"test": pytest.approx({"average_loss": truth, "rmse": np.sqrt(truth)})}


def test_of_classes_it_is_the_share_of_the_most_frequent():
    truth = sklearn_metrics.accuracy_score([0] * 2 + [1] * 5 + [2] * 3, [1] * 10)
    assert _baselines(_classes(2, 5, 3), {"accuracy": 0.9}) == {"test": {"accuracy": truth}}


@pytest.mark.parametrize(
    ("auc", "more"), [(0.9, {"auc": 0.5}), (math.nan, {})], ids=["both labels", "a single label"]
)
def test_of_two_classes_it_is_what_the_evaluation_reports(auc, more):
    """Whatever the weights, the threshold and the model."""
    reported = {"accuracy": 0.9, "accuracy_baseline": 0.7, "auc": auc}
    for given in (_classes(2, 5), manifest.ColumnStatistics(count=9)):
        assert _baselines(given, reported) == {"test": {"accuracy": 0.7, **more}}


@pytest.mark.parametrize(
    "case",
    [
        {"excluded": {"test": frozenset({0})}},
        {"label": {"weight": "weight"}},
        {"label": {"balanced": True}},
        {"model": {"name": "mine:model_fn"}},
        {"statistics_of_label": _classes(2, 5, 3, count=11)},
        {"statistics_of_label": manifest.ColumnStatistics(count=10)},
    ],
    ids=["blocks left out", "weights", "balanced", "own model", "rare labels", "no counts"],
)
def test_what_the_statistics_do_not_describe_has_none(case):
    given = {"statistics_of_label": _classes(2, 5, 3), "reported": {"accuracy": 0.9}, **case}
    assert _baselines(**given) == {}


def test_records_without_statistics_have_none():
    job = make(FEATURES, model=NUMBER)
    described = contents(job).model_copy(update={"statistics": {}})
    assert (
        baseline.compute_metrics(job, described, {}, evaluations={"test": {"average_loss": 1.0}})
        == {}
    )
