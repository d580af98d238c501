"""How far a process that is lost has got, and what is said of it."""

from __future__ import annotations

import pytest

from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import restart_policy, watchdog
from pipeline.supervision.members import Member

MADE = {"step": 70, "loss": 0.5}


def lost(tmp_path, role, *, unit="task", pid=7, hang=None, **values):
    member = Member(role, 0, topology.Task(role, 0), str(tmp_path / "log"), pid=7, hang=hang)
    run = RunFolder(str(tmp_path))
    run_folder.write_status(run, Status(member.name, pid, "h", "training", 1.5, **values))
    return member.loss(run, -9, newest_step=90, unit=unit)


@pytest.mark.parametrize(
    ("role", "values", "reached"),
    [
        ("worker", MADE, 70),
        ("worker", {"step": 70}, None),  # the step it was restored at
        ("chief", MADE, 70),
        ("ps", {}, 90),
        ("evaluator", {"step": 70, "evaluation": {"step": 60, "accuracy": 0.5}}, 60),
        ("evaluator", {}, None),
    ],
)
def test_it_is_as_far_as_its_own_steps_or_evaluations(tmp_path, role, values, reached):
    assert lost(tmp_path, role, **values).reached == reached


@pytest.mark.parametrize("unit", ["task", "gang"])
@pytest.mark.parametrize("state", ["evaluating", "exporting"])
def test_a_chief_that_failed_while_it_evaluated_is_as_far_as_its_evaluations(tmp_path, unit, state):
    found = lost(tmp_path, "chief", unit=unit, failed_in=state, **MADE)
    assert (found.reached, found.evaluating) == (None, True)
    evaluated = {**MADE, "evaluation": {"step": 60, "accuracy": 0.5}}
    assert lost(tmp_path, "chief", unit=unit, failed_in=state, **evaluated).reached == 60
    assert not lost(tmp_path, "chief", unit=unit, failed_in="training", **evaluated).evaluating


def test_what_is_started_again_together_is_as_far_as_the_run(tmp_path):
    assert lost(tmp_path, "worker", unit="gang", **MADE).reached == 90
    stalled = lost(tmp_path, "worker", hang=watchdog.Hang(None, "no step for 120 s"), **MADE)
    assert (stalled.reached, stalled.stalled, stalled.cause) == (90, True, "no step for 120 s")


def test_the_status_of_an_earlier_attempt_does_not_count(tmp_path):
    found = lost(tmp_path, "worker", pid=6, **MADE)
    assert (found.reached, found.worked) == (None, False)


@pytest.mark.parametrize(
    ("cause", "said"),
    [("no module 'm'; is it there?", "it there?"), ("full.", "full.")],
)
def test_a_failure_ends_with_one_mark(tmp_path, cause, said):
    task = topology.Task("chief", 0)
    member = Member("chief", 0, task, str(tmp_path / "log"), pid=7)
    loss = restart_policy.Loss(task, 64, cause, worked=False)
    error = member.failure(loss, restart_policy.Decision("fail", code=64))
    assert f" {said} Log: " in f" {error}"
