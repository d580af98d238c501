"""How many calls run at the same time in an input pipeline."""

import pytest

from pipeline.processes import environment
from pipeline.records import feature_plan
from tests.pipeline import feature_tables
from trainer.input import parallel


@pytest.mark.parametrize(
    ("given", "processors", "calls"),
    [("4", 2, 4), ("1", 8, None), ("", 8, 8), ("0", 8, 8), ("many", 2, 2), ("", 1, None)],
)
def test_a_process_uses_its_share_of_the_processors(monkeypatch, given, processors, calls):
    monkeypatch.setattr(environment, "processors", lambda: processors)
    assert parallel.count_calls({"TF_NUM_INTRAOP_THREADS": given}) == calls
    assert parallel.count_calls({"TF_NUM_INTRAOP_THREADS": "64"}) == 16


@pytest.mark.parametrize(
    ("calls", "size", "limited"),
    [(16, 0, 16), (16, 16 << 20, 16), (16, 64 << 20, 4), (16, 1 << 40, 2), (None, 1, None)],
)
def test_two_batches_are_made_at_once_however_large(calls, size, limited):
    assert parallel.limit_calls(calls, size) == limited


@pytest.mark.parametrize(
    ("steps", "random"), [(["scale"], False), ([{"augment": {"flip": True}}, "scale"], True)]
)
def test_changes_at_random_are_distinguished_from_others(steps, random):
    job = feature_tables.make({"picture": {"steps": steps}})
    plan = feature_plan.plan(job, feature_tables.contents(job))
    assert parallel.are_random(plan.features) == random
