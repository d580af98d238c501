"""The program on the first node of a job, with stand-ins for Slurm's programs and its steps."""

from __future__ import annotations

import pathlib

import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import batch
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_record


@pytest.fixture
def attempt(tmp_path):
    """Returns a start of a job whose step has ended."""
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    record = run_record.begin(job.config, job.run)
    return batch.JobAttempt(job, record, "7", stop=StopRequest())


@pytest.mark.parametrize(
    ("code", "kind"), [(64, errors.UsageError), (65, errors.DataError), (70, errors.ModelError)]
)
def test_a_task_that_fails_for_good_before_it_records_that_ends_the_job(attempt, code, kind):
    words = f"its Slurm step ended with exit code {code}: "
    with pytest.raises(kind, match=f"^{words}see make logs ROLE=slurm$"):
        attempt._start_again(None, code)
    log = pathlib.Path(attempt._run.log_path("slurm"))
    log.parent.mkdir(parents=True)
    log.write_text("job 7\nerror: PIPELINE_SLURM: not a step of a job of ours\nsrun: error: n1\n")
    with pytest.raises(kind, match=f"^{words}PIPELINE_SLURM: not a step of a job of ours$"):
        attempt._start_again(None, code)


def test_a_step_that_was_lost_is_started_again(attempt, monkeypatch):
    monkeypatch.setattr(StopRequest, "wait", lambda self, seconds: None)
    attempt._start_again(None, 137)
    assert [one.cause for one in attempt._record.restarts] == [
        "its Slurm step ended with exit code 137"
    ]
