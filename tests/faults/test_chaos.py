"""The whole command, on a small job: what it finds, and what it leaves alone."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from pipeline.faults import launched, processes, slow_disk
from pipeline.faults.launched import LaunchedRun
from tests.faults import planted
from tests.pipeline.process_help import ROOT, child_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
# A small rate, so that the order in which records come after a restart makes no difference to the
# metric: runs whose metrics differ are compared with four more. Not all checkpoints are evaluated.
SYNC = (
    "--strategy=parameter_server_sync",
    "--set=train.save_steps=50",
    "--set=train.optimizer={name: sgd, learning_rate: 0.05}",
    "--set=eval.throttle_seconds=10",
)
LONG = (*SYNC, "--set=train.steps=800")  # of these the undisturbed run is made once


@pytest.fixture
def chaos(small_records, tmp_path):
    """Breaks the small job, whose records are there already."""
    storage = pathlib.Path(small_records.storage)

    def run(*words):
        command = [
            sys.executable,
            "-m",
            "pipeline.commands.chaos",
            f"--config={small_records.config_path}",
            f"--storage={storage}",
            "--baseline=1",
            *words,
        ]
        done = subprocess.run(
            command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False
        )
        return done, storage

    return run


def files(storage):
    """Returns what is in the storage besides the chaos folder, by path."""
    return {
        path: path.read_bytes()
        for path in storage.rglob("*")
        if path.is_file() and "chaos" not in path.relative_to(storage).parts
    }


def test_a_job_that_keeps_its_promises_ends_right(chaos, small_records):
    """An altered shard, a full disk and a stop, by this seed."""
    before = files(pathlib.Path(small_records.storage))
    done, storage = chaos(*LONG, "--faults=3", "--seed=2337")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: the end is right" in done.stdout
    assert files(storage) == before
    (page,) = storage.glob("chaos/*/seed-2337/chaos.json")
    found = json.loads(page.read_text())
    assert found["wrong"] == [] and found["exports"] == 1
    assert found["doubled"] == found["missed"] == 0
    assert all(fault["struck"] for fault in found["faults"])
    assert "the end is right" in page.with_name("chaos.html").read_text()


def test_all_processes_of_a_run_are_found_and_its_fork_server_is_killed(small_records):
    """By nothing that tests alone put into their environment."""
    storage = pathlib.Path(small_records.storage)
    words = [f"--config={small_records.config_path}", "--set=train.steps=600", "--workers=1"]
    environment = {**child_environment(), "PIPELINE_FAULTS": ""}
    run = LaunchedRun(
        storage,
        "forked",
        [*words, "--strategy=parameter_server", "--ps=1"],
        environment=environment,
        folder=ROOT,
    )
    run.start()
    struck = []

    def act():
        if run.top_step >= 20 and not struck:
            tasks = {one.pid for one in run.statuses.values() if one.state != "done"}
            assert len(tasks) == 4 and tasks <= processes.processes_of(run.run.path)
            struck.append(run.kill("fork-server"))

    wrong = []
    assert not launched.follow(run, act, wrong.append)
    assert (struck, wrong, run.launches) == ([True], [], 1)
    assert [restart.role for restart in run.restarts] == ["fork-server"]
    shutil.rmtree(run.run.path)


@pytest.mark.matrix
def test_a_hook_that_forgets_its_place_is_found_and_the_seed_named(chaos):
    done, _ = chaos(
        *SYNC,
        "--faults=2",
        "--seed=11",
        "--kinds=checkpoint",
        "--set=train.steps=800",
        f"--set=train.hooks=[{planted.HOOK}]",
    )
    assert done.returncode == 70, done.stdout + done.stderr
    assert "records applied more than once, 0 allowed; seed 11. Repeat it with" in done.stderr
    assert "SEED=11" in done.stderr


@pytest.mark.matrix
def test_a_slow_disk_and_a_clock_that_jumps_lose_nothing(chaos):
    done, storage = chaos(*LONG, "--kinds=slow_disk,clock", "--faults=2", "--seed=15")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = storage.glob("chaos/*/seed-15/runs/disturbed/run.json")
    record = json.loads(run.read_text())
    assert record["restarts"] == [] and record["launches"] == 1
    assert min(record["seconds"].values()) >= 0
    why = slow_disk.find_obstacle()
    assert f"not tried: slow_disk: {why}" in done.stdout or not why
