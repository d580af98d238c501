"""Warnings of features that float32 takes in coarse steps."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.records import coarse, feature_plan, manifest
from tests.pipeline.feature_tables import contents, make, statistics

DAYS = np.arange(20190101, 20190132)


def _warnings(steps, values=DAYS, kind="int64"):
    job = make({"f": {"of": "day", "steps": steps}}, columns={"day": {"type": kind}})
    train = manifest.Statistics(columns={"day": statistics(values)})
    found = contents(job).model_copy(update={"statistics": {"train": train}})
    return list(coarse.warnings(feature_plan.plan(job, found)))


@pytest.mark.parametrize(
    ("steps", "where"),
    [
        ([], "as they are"),
        (["missing"], "behind missing"),
        ([{"clip": {"min": 20190105}}, "z_score"], "behind clip"),
        (["log1p", "z_score"], "behind log1p"),
    ],
)
def test_whole_numbers_that_become_float32_too_early(steps, where):
    [line] = _warnings(steps)
    assert line.startswith(f"features.f: values {where} deviate by ")
    assert " apart in float32, which they are there. Let z_score, min_max, piecewise or" in line


@pytest.mark.parametrize(
    "steps",
    [
        ["z_score"],
        ["min_max", {"clip": {"max": 0.5}}],
        [{"piecewise": {"count": 4}}],
        [{"buckets": {"count": 4}}],
        [{"cycle": {"period": 7}}],
        [{"hash": {"buckets": 9}}],
    ],
)
def test_steps_that_take_whole_numbers_as_they_are(steps):
    assert _warnings(steps) == []


def test_a_column_of_floats_is_coarse_before_any_step():
    [line] = _warnings(["z_score"], kind="float32")
    assert "values as they are deviate by 8.94, but numbers up to 2.02e+07 are 2 apart" in line


def test_numbers_that_vary_enough_or_not_at_all():
    assert _warnings(["log1p"], np.arange(0, 2**40, 2**30)) == []
    assert _warnings([], DAYS[:1].repeat(5)) == []
