"""A preprocessing job, with stand-ins for Slurm's programs."""

from __future__ import annotations

import re

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers.preprocessing import PreprocessingRequest
from pipeline.launchers.slurm import advice, commands, preprocess_job, waits


@pytest.fixture
def slurm(monkeypatch, tmp_path):
    """Returns a function that preprocesses, with a job that goes through states."""

    def work(*states: str, exit_code: str = "0:0", log: bytes = b"", cpus: int = 1, **others):
        said: list[str] = []
        submitted: list[str] = []
        left = list(states)

        def submit(text: str) -> str:
            submitted.append(text)
            path = next(
                line for line in text.splitlines() if line.startswith("#SBATCH --output=")
            ).partition("=")[2]
            with open(path, "wb") as file:
                file.write(log)
            return "5"

        monkeypatch.setattr(commands, "require", lambda: None)
        monkeypatch.setattr(commands, "submit", others.pop("submit", submit))
        monkeypatch.setattr(commands, "state", lambda number: (left.pop(0), ""))
        monkeypatch.setattr(commands, "exit_of", lambda number: exit_code)
        error = None
        try:
            request = PreprocessingRequest(
                config_file.load("mnist", ["slurm.partition=cpu", f"slurm.cpus={cpus}"]),
                str(tmp_path),
                arguments=("--config=mnist", "--set=data.shards.train=3"),
                num_workers=4,
                **others,
            )
            preprocess_job.submit(request, say=said.append, sleep=lambda seconds: None)
        except errors.PipelineError as raised:
            error = raised
        return said, submitted, error

    return work


def test_a_job_that_ends_well(slurm):
    said, [text], error = slurm("PENDING", "RUNNING", "COMPLETED", log=b"one\ntwo")
    assert error is None
    assert said[1:] == ["Slurm: pending", "one", "Slurm: running", "Slurm: completed", "two"]
    assert "#SBATCH --ntasks=1\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n" in text
    assert "#SBATCH --partition=cpu\n" in text
    last = text.splitlines()[-1]
    module = "-m pipeline.run_module preprocessing.main"
    assert f"{module} --config=mnist --set=data.shards.train=3 --storage=" in last
    assert last.endswith("--num_workers=4")


def test_a_job_that_fails_has_said_why(slurm):
    _, _, error = slurm("FAILED", exit_code="65:0", log=b"error: bad rows\n")
    assert isinstance(error, errors.ReportedError) and error.exit_code == 65


def test_a_job_that_is_killed(slurm):
    _, _, error = slurm("NODE_FAIL", exit_code="0:9")
    assert isinstance(error, errors.RetryableError)
    assert str(error) == "Slurm job 5 ended as node_fail by signal 9. Run the same command again."


def test_a_job_that_never_starts_is_cancelled(slurm, monkeypatch):
    cancelled: list[str] = []
    monkeypatch.setattr(commands, "cancel", cancelled.append)
    never = errors.UsageError("Slurm job 5 can never start")
    monkeypatch.setattr(waits, "find_prospect", lambda *job: waits.Prospect("pending", never))
    _, _, error = slurm("PENDING")
    assert str(error) == str(never) and cancelled == ["5"]


@pytest.mark.parametrize(("cpus", "key"), [(1, "NUM_WORKERS"), (4, r"slurm\.cpus")])
@pytest.mark.parametrize(
    "said",
    [
        "Requested node configuration is not available",
        "Requested more tasks than available processors",
    ],
)
def test_a_refusal_names_what_asks_for_processors(slurm, said, cpus, key):
    def submit(text):
        raise errors.UsageError(f"sbatch: {said}. {advice.advise_on_refusal(said)}")

    _, _, error = slurm("PENDING", cpus=cpus, submit=submit)
    assert re.search(rf"\. Ask for less with {key}, ", str(error)), error
    assert "slurm.nodes" not in str(error)


@pytest.mark.parametrize("reason", ["PartitionConfig", "AssocMaxCpuPerNode"])
def test_a_reason_to_wait_names_what_asks_for_processors(slurm, monkeypatch, reason):
    wait = advice.advise_on_wait(reason)
    assert wait is not None
    text = f"pending ({reason}). {wait.advice}"
    monkeypatch.setattr(waits, "find_prospect", lambda *job: waits.Prospect(text))
    said, _, _ = slurm("COMPLETED")
    assert f"Slurm: pending ({reason}). Ask for less with slurm.time, NUM_WORKERS, " in said[1]


def test_a_dry_run_only_shows_the_script(slurm):
    [text], submitted, error = slurm(dry_run=True)
    assert text.startswith("#!/bin/bash\n#SBATCH --job-name=preprocess-mnist\n")
    assert "#SBATCH --output=slurm-%j.out\n" in text
    assert not submitted and error is None
