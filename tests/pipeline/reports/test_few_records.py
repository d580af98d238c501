"""Metrics of too few records say so, as in `make evaluate`."""

from __future__ import annotations

import pytest

from pipeline.console import figures
from pipeline.reports import few_records
from trainer.metrics import intervals

METRICS = {"auc": 1.0, "accuracy": 1.0, "calibration": 1.0, "label/mean": 0.1}


@pytest.mark.parametrize(
    ("name", "records", "words"),
    [
        ("accuracy", 4, "too few records: 4"),
        ("auc", 4, "too few records: 4"),
        ("global_step", 4, ""),
        ("accuracy", 10, ""),
        ("auc", 40, "too few records: 4 of one label"),
        ("calibration", 40, "too few records: 4 of one label"),
        ("auc", 100, ""),
        ("accuracy", 40, ""),
        ("auc", None, ""),
        ("auc", 0, ""),
    ],
)
@pytest.mark.parametrize("label", ["", "click/"])
def test_they_say_how_many_they_are(name, records, words, label):
    metrics = {f"{label}{key}": value for key, value in METRICS.items()}
    given = name if name == "global_step" else f"{label}{name}"
    assert few_records.describe_shortage(given, metrics, records) == words


@pytest.mark.parametrize("rate", [{}, {"label/mean": float("nan")}, {"label/mean": 1e9}])
def test_of_unknown_labels_only_all_records_count(rate):
    metrics = {"auc": 1.0, **rate}
    assert few_records.describe_shortage("auc", metrics, 40) == ""
    assert few_records.describe_shortage("auc", metrics, 4) == "too few records: 4"


def test_calibration_counts_positives():
    metrics = {"label/mean": 0.9}
    assert few_records.describe_shortage("calibration", metrics, 40) == ""
    assert few_records.describe_shortage("auc", metrics, 40) == "too few records: 4 of one label"


def test_they_are_as_many_as_get_no_interval():
    assert intervals.FEW == figures.FEW
