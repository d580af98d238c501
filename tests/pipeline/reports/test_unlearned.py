"""Results that are no better than a constant answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.reports import unlearned


@pytest.mark.parametrize(
    ("metrics", "baselines"),
    [
        ({"accuracy": 0.0}, {"accuracy": 0.01}),
        ({"accuracy": 0.9}, {"accuracy": 0.9}),
        ({"accuracy": 0.9, "auc": 0.5}, {"accuracy": 0.9, "auc": 0.5}),
        ({"average_loss": 2.0}, {"average_loss": 1.9}),
    ],
)
def test_no_better_than_a_constant_answer(metrics, baselines):
    found = unlearned.check_result({"eval": metrics}, {"eval": baselines}, {})
    assert found and found.startswith(f"eval {next(iter(metrics))} ")
    assert "is no better than the baseline" in found


@pytest.mark.parametrize(
    ("metrics", "baselines"),
    [
        ({"accuracy": 0.02}, {"accuracy": 0.01}),
        ({"accuracy": 0.9, "auc": 0.8}, {"accuracy": 0.91, "auc": 0.5}),
        ({"average_loss": 1.8}, {"average_loss": 1.9}),
        ({"average_loss": 2.0}, {}),
        ({"accuracy": math.nan}, {"accuracy": 0.5}),
        ({"mrr": 0.1}, {"mrr": 0.2}),
        ({"accuracy": 1.0, "average_loss": 0.1}, {"accuracy": 1.0, "average_loss": 0.0}),
    ],
)
def test_better_or_unknown_is_no_warning(metrics, baselines):
    assert unlearned.check_result({"eval": metrics}, {"eval": baselines}, {}) is None


def test_intervals_tell_what_is_better():
    """An area within its interval of a half does not excuse an accuracy below the baseline; a value
    above the baseline is no warning, however wide its interval is."""
    simple = {"test": {"accuracy": 0.55, "auc": 0.5}}
    metrics = {"accuracy": (0.52, 0.4, 0.64), "auc": (0.53, 0.4, 0.66)}
    found = unlearned.warning({"test": metrics}, simple)
    assert found and found.startswith("test accuracy 0.5200 is no better than the baseline 0.5500")
    for better in ({"auc": (0.8, 0.7, 0.9)}, {"accuracy": (0.56, 0.4, 0.7)}):
        assert unlearned.warning({"test": {**metrics, **better}}, simple) is None


def test_an_interval_may_have_a_remark():
    ends = {"test": {"rmse": [0.4, 0.6, "few records carry this error"]}}
    found = unlearned.check_result(
        {"test": {"rmse": 0.5}}, {"test": {"rmse": 0.7}}, {}, intervals=ends
    )
    assert found is None


def test_an_area_that_chance_reaches_does_not_excuse_an_accuracy():
    simple = {"test": {"accuracy": 0.546, "auc": 0.5}}
    metrics = {"test": {"accuracy": 0.515, "auc": 0.53}}
    found = unlearned.check_result(metrics, simple, {"test": 60})
    assert found and found.startswith("test accuracy 0.5150 is no better than the baseline 0.5460")
    assert unlearned.check_result(metrics, simple, {"test": 60_000}) is None
    surely = {"test": {"accuracy": 0.515, "auc": 0.8}}
    assert unlearned.check_result(surely, simple, {"test": 60}) is None


def test_areas_of_noise_are_within_the_interval_of_chance():
    generator = np.random.default_rng(0)
    labels = np.arange(100) < 30
    areas = []
    for _ in range(2000):
        ranks = generator.permutation(100)
        areas.append((ranks[labels].sum() - 30 * 29 / 2) / (30 * 70))
    simple = {"test": {"accuracy": 0.7, "auc": 0.5}}
    excused = [
        unlearned.check_result({"test": {"accuracy": 0.6, "auc": area}}, simple, {"test": 100})
        is None
        for area in areas
    ]
    assert 0.015 < np.mean(excused) < 0.035


def test_the_test_split_comes_first():
    metrics = {"eval": {"accuracy": 0.1}, "test": {"accuracy": 0.1}}
    simple = {"eval": {"accuracy": 0.2}, "test": {"accuracy": 0.2}}
    assert unlearned.check_result(metrics, simple, {}).startswith("test accuracy")


def test_rows_of_all_records_count_without_what_is_of_too_few():
    def row(name, value, few=False):
        found = {"accuracy": {"value": value, "low": value, "high": value, "few": few}}
        return {"slice": name, "metrics": found, "baseline": {"accuracy": 0.5}}

    assert unlearned.check_rows({"600 test": [row("all", 0.4)]}).startswith(
        "600 test accuracy 0.4000"
    )
    assert unlearned.check_rows({"test": [row("all", 0.6), row("a=1", 0.4)]}) is None
    assert unlearned.check_rows({"test": [row("all", 0.4, few=True)]}) is None
    assert unlearned.check_rows({"test": []}) is None
