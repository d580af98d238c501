"""The newest plan is made once, and for these two objects alone."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.records import feature_plan, kept_plan
from tests.pipeline.feature_tables import contents, make

FEATURES = {"time": {"steps": ["z_score"]}}


def test_the_same_job_and_manifest_are_planned_once():
    job = make(FEATURES)
    made = contents(job)
    first = kept_plan.plan(job, made)
    assert first == feature_plan.plan(job, made)
    assert kept_plan.plan(job, made) is first


def test_another_job_or_manifest_is_planned_anew():
    job = make(FEATURES)
    made = contents(job)
    first = kept_plan.plan(job, made)
    other = make({"time": {"steps": [{"buckets": {"count": 4}}]}})
    assert kept_plan.plan(other, made).features[0].ids == 4
    train = made.statistics["train"]
    time = train.columns["time"].model_copy(update={"mean": -1.0})
    train = train.model_copy(update={"columns": {**train.columns, "time": time}})
    moved = made.model_copy(update={"statistics": {"train": train}})
    assert kept_plan.plan(job, moved).features[0].steps[0].mean == -1.0
    assert kept_plan.plan(job, made) == first


def test_what_cannot_be_planned_is_refused_each_time():
    job = make(FEATURES)
    bare = contents(job).model_copy(update={"statistics": {}})
    for _ in range(2):
        with pytest.raises(errors.UsageError, match="needs the mean"):
            kept_plan.plan(job, bare)
