"""Whether a program on the first node still has its job, with stand-ins for Slurm's programs."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.launchers.slurm import agent, commands, requeues
from pipeline.runs.run_folder import RunFolder

SHOWN = "JobId=7 JobState={} Reason=None Requeue=1 Restarts={} BatchFlag=1"
OUTAGE = errors.RetryableError("scontrol: Unable to contact slurm controller")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    return RunFolder(str(tmp_path))


def answer(monkeypatch, *answers):
    left = list(answers)

    def ask(*words):
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(commands, "ask", ask)


@pytest.mark.parametrize(
    ("shown", "has_job"),
    [
        (SHOWN.format("RUNNING", 2), True),
        (SHOWN.format("RUNNING", 3), False),
        (SHOWN.format("PENDING", 3), False),
        (SHOWN.format("COMPLETING", 2), False),
        (SHOWN.format("NODE_FAIL", 2), False),
        (errors.UsageError("scontrol: Invalid job id specified"), False),
    ],
)
def test_what_slurm_shows_of_the_job(run, monkeypatch, shown, has_job):
    answer(monkeypatch, shown)
    assert requeues.has_job(run, "7", wait=pytest.fail) is has_job


def test_a_controller_that_does_not_answer_is_asked_again(run, monkeypatch):
    waited = []
    answer(monkeypatch, OUTAGE, OUTAGE, SHOWN.format("PENDING", 3))
    assert not requeues.has_job(run, "7", wait=waited.append)
    assert len(waited) == 2


@pytest.mark.parametrize(("start", "has_job"), [("7.2", True), ("7.3", False)])
def test_without_a_controller_another_start_has_the_job(run, monkeypatch, start, has_job):
    answer(monkeypatch, OUTAGE)
    run.write(agent.CURRENT, {"start": start})
    assert requeues.has_job(run, "7", wait=lambda seconds: None) is has_job
