"""When training ends because nothing improves any more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.config import EarlyStopping, Eval
from trainer.evaluation import early_stopping

NAN = math.nan


def _reason(values, *, patience=2, min_delta=0.0, higher=True):
    evaluations = [{"accuracy": v, "global_step": 10.0 * (i + 1)} for i, v in enumerate(values)]
    rule = EarlyStopping(patience=patience, min_delta=min_delta)
    how = Eval(metric="accuracy", higher_is_better=higher, early_stopping=rule)
    return early_stopping.find_reason_to_stop(evaluations, how)


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ([], False),
        ([0.5], False),
        ([0.5, 0.4], False),
        ([0.5, 0.4, 0.45], True),
        ([0.5, 0.5, 0.5], True),  # as good is no better
        ([0.5, 0.4, 0.6, 0.5], False),
        ([NAN, NAN], True),
        ([NAN, 0.1, NAN], False),
        ([0.5, NAN, NAN], True),
        ([0.5, math.inf, math.inf], True),
        ([-math.inf, 0.1, 0.2], False),
    ],
)
def test_it_stops_after_patience_evaluations_without_a_new_best(values, stops):
    assert (_reason(values) is not None) is stops
    flipped = [-value for value in values]
    assert (_reason(flipped, higher=False) is not None) is stops


def test_many_small_improvements_add_up():
    """Each is compared with the last that counted, not with the one before it."""
    assert _reason([0.5, 0.5625, 0.625, 0.6875], min_delta=0.1) is None
    assert _reason([0.5, 0.5625, 0.59], min_delta=0.1) is not None


def test_evaluations_from_before_the_model_reported_the_metric_do_not_count():
    """Code of one's own may learn a metric between two starts."""
    rule = EarlyStopping(patience=2)
    how = Eval(metric="auc", early_stopping=rule)
    old = [{"accuracy": 0.5, "global_step": float(step)} for step in (10, 20, 30)]
    new = [{"accuracy": 0.5, "auc": 0.6, "global_step": float(step)} for step in (40, 50, 60)]
    assert early_stopping.find_reason_to_stop(old, how) is None
    assert early_stopping.find_reason_to_stop([*old, *new[:2]], how) is None
    assert early_stopping.find_reason_to_stop([*old, *new], how) is not None


def test_the_reason_names_the_best():
    assert _reason([0.25, 0.5, 0.5, 0.4], min_delta=0.125) == (
        "early stopping: accuracy has not improved by more than 0.125 in 2 evaluations "
        "(best 0.5 at step 20)"
    )
    assert "best no number at all" in _reason([NAN, NAN])


def test_without_a_rule_it_never_stops():
    evaluations = [{"accuracy": 0.1, "global_step": float(step)} for step in range(100)]
    assert early_stopping.find_reason_to_stop(evaluations, Eval()) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_bounded_list_decides_as_the_whole_one(seed):
    """A run has so many evaluations that the list of all would be megabytes."""
    random = np.random.default_rng(seed)
    rule = EarlyStopping(patience=int(random.integers(1, 15)), min_delta=0.05)
    how = Eval(metric="accuracy", early_stopping=rule)
    every, remembered = [], []
    for step in range(200):
        value = NAN if random.random() < 0.1 else float(random.normal(step / 50))
        noted = {"accuracy": value, "global_step": float(step), "settings": "now"}
        before = {"accuracy": 9.0, "global_step": float(step), "settings": "before"}
        every.append(noted)
        other = [before] if random.random() < 0.1 else []
        remembered = early_stopping.limit_history(
            [*remembered, *other, noted], how, "now", at_least=10
        )
        assert len(remembered) <= 2 * max(10, rule.patience + 1) + 1
        found = early_stopping.filter_by_settings(remembered, "now")
        whole = early_stopping.find_reason_to_stop(every, how)
        assert (early_stopping.find_reason_to_stop(found, how) is None) == (whole is None)
        if whole is not None:
            return
