"""Jobs of workers that join: which are submitted, and which are taken back."""

from __future__ import annotations

import os

import pytest

from pipeline.config import config_file
from pipeline.launchers.slurm import commands, extra_workers, script
from pipeline.runs import fatal
from pipeline.runs.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    made = RunFolder(str(tmp_path / "runs" / "r"))
    os.makedirs(made.path)
    job = config_file.load("mnist", ["cluster.workers=2", "cluster.max_workers=5"])
    with open(made.config_path, "w") as file:
        file.write(config_file.dump(job))
    fatal.begin(made, "abc")
    return made


def test_each_worker_without_a_task_gets_one_job(run, monkeypatch):
    there = {script.comment(run, worker=2): ("7", "RUNNING"), script.comment(run): ("1", "RUNNING")}
    submitted = []
    monkeypatch.setattr(commands, "find_jobs_by_comment", lambda: there)
    monkeypatch.setattr(commands, "submit", submitted.append)
    extra_workers.submit(run, "/s", 4)
    (text,) = submitted
    assert f"--comment={script.comment(run, worker=3)}" in text
    assert "--part=joined --worker=3 --run=r --storage=/s" in text
    assert f"export {fatal.SUBMISSION}=abc" in text
    assert "#SBATCH --ntasks=1" in text
    extra_workers.submit(run, "/s", 2)
    assert len(submitted) == 1


def test_those_that_wait_for_a_node_are_taken_back(run, monkeypatch):
    states = {2: ("7", "PENDING"), 3: ("8", "RUNNING"), 4: ("9", "PENDING")}
    there = {script.comment(run, worker=n): one for n, one in states.items()}
    cancelled = []
    monkeypatch.setattr(commands, "find_jobs_by_comment", lambda: there)
    monkeypatch.setattr(commands, "cancel", cancelled.append)
    extra_workers.withdraw(run, first=3)
    assert cancelled == ["9"]
    extra_workers.withdraw_all(run)
    assert cancelled == ["9", "7", "9"]
