"""Which values undisturbed runs allow."""

from __future__ import annotations

import random

import pytest

from pipeline.faults import metric_band
from pipeline.faults.metric_band import Band


def test_the_band_is_as_wide_again_as_undisturbed_runs_differ():
    found = metric_band.compute_band("accuracy", [0.90, 0.92])
    assert (found.metric, str(found)) == ("accuracy", "0.8800 to 0.9400")


def test_the_band_of_equal_runs_is_half_a_percent():
    assert str(metric_band.compute_band("accuracy", [0.8])) == "0.7960 to 0.8040"
    assert metric_band.compute_band("accuracy", [None]) is None


def test_from_three_runs_on_the_band_has_99_of_100_others():
    """By a simulation of runs that differ by nothing but chance, as of a loss that varies by 2%."""
    rng = random.Random(4)
    for count, at_most in ((3, 0.02), (4, 0.02), (5, 0.02), (8, 0.02), (10, 0.02), (12, 0.02)):
        outside = 0
        for _ in range(2000):
            *known, other = (rng.gauss(3000, 60) for _ in range(count + 1))
            found = metric_band.compute_band("accuracy", known)
            outside += bool(metric_band.check_metric(found, other))
        assert outside / 2000 < at_most, count
    found = metric_band.compute_band("accuracy", (0.80, 0.81, 0.82, 0.83, 0.84))
    assert metric_band.check_metric(found, 0.70)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [(0.9, []), (0.8, ["accuracy is 0.8000"]), (None, ["accuracy is missing"])],
)
def test_the_metric_must_be_in_the_band(value, wrong):
    found = metric_band.check_metric(metric_band.compute_band("accuracy", [0.90]), value)
    assert [line.partition(",")[0] for line in found] == wrong


def test_how_far_a_band_reaches_is_reported():
    assert (
        metric_band.compute_band("auc", [0.90, 0.92]).width == "the band of auc is ±3.3 % by 2 runs"
    )
    assert metric_band.compute_band("auc", [0.9]).width == "the band of auc is ±0.5 % by 1 run"
    assert metric_band.compute_band("auc", [0.0]).width == "the band of auc is ±0 % by 1 run"
    wide = Band("r2", -0.4, 0.6, 8).width
    assert wide == "the band of r2 is wide: ±500 % by 8 runs; BASELINE=16 narrows it"
    assert "r2 is wide: on both sides of 0 by 5 runs" in Band("r2", -0.4, 0.4, 5).width
