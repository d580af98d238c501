"""Commands that look at a run whose Slurm job no command follows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers import remote_jobs
from pipeline.launchers.slurm import commands
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import ROOT
from tests.support.sets import slow


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A run that has been submitted; returns a function that sets the state of its job."""
    run = RunFolder(str(tmp_path / "r"))
    record = run_record.begin(config_file.load("mnist"), run)
    record.job = "slurm/12"
    run_record.write(run, record)
    cancelled: list[str] = []

    def put(state: str, reason: str = ""):
        monkeypatch.setattr(commands, "state", lambda number: (state, reason))
        monkeypatch.setattr(commands, "cancel", cancelled.append)
        return run

    put.cancelled = cancelled
    return put


def test_status_says_what_slurm_says(slurm):
    assert remote_jobs.describe_job(slurm("PENDING", "Resources")) == [
        "Slurm job 12: pending (Resources)"
    ]
    found = remote_jobs.describe_job(slurm("TIMEOUT"))
    assert found[0] == "Slurm job 12: timeout" and "once more, takes note of the end" in found[1]
    assert remote_jobs.logs_link("slurm/12") is None


def test_a_job_that_waits_is_cancelled_by_stop(slurm):
    assert remote_jobs.stop(slurm("RUNNING")) is None
    assert not slurm.cancelled
    assert (
        remote_jobs.stop(slurm("PENDING"))
        == "its Slurm job 12 had no machines yet, and is cancelled"
    )
    assert slurm.cancelled == ["12"]
    with pytest.raises(errors.UsageError, match="nothing to stop, its Slurm job 12 is failed"):
        remote_jobs.stop(slurm("FAILED"))


def test_a_run_on_slurm_is_left_alone(slurm):
    with pytest.raises(errors.UsageError, match=r"is Slurm job 12. Follow it with CLUSTER=slurm"):
        remote_jobs.refuse_while_going(slurm("RUNNING"))
    assert remote_jobs.refuse_while_going(slurm("COMPLETED")) is None
    assert remote_jobs.has_ended("slurm/12")


def test_other_runs_have_no_job(tmp_path):
    run = RunFolder(str(tmp_path / "other"))
    assert remote_jobs.describe_job(run) == []
    assert remote_jobs.stop(run) is None
    assert remote_jobs.refuse_while_going(run) is None


@pytest.mark.parametrize(
    "module",
    ["pipeline.launchers.local.launcher", "pipeline.commands.status", slow("trainer.task")],
)
def test_what_runs_here_imports_only_the_settings_of_other_places(module):
    code = (
        f"import sys, {module}\n"
        "print(*sorted(name for name in sys.modules if name.startswith('pipeline.launchers.')"
        " and name.split('.')[2] in ('gcp', 'k8s', 'slurm')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {
        "pipeline.launchers.gcp",
        "pipeline.launchers.gcp.settings",
        "pipeline.launchers.k8s",
        "pipeline.launchers.k8s.settings",
        "pipeline.launchers.slurm",
        "pipeline.launchers.slurm.settings",
    }
