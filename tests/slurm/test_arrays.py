"""Arrays of runs on a real Slurm."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from pipeline.runs import run_folder
from tests.slurm import real
from tests.slurm.ends import await_end, check_done
from tests.slurm.slow_steps import HURRY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ONE_PROCESS = (
    "cluster.strategy=none",
    "train.epochs=null",
    "train.steps=60",
    "train.save_steps=10",
    "train.hooks=[tests.slurm.slow_steps:SlowSteps]",
)


def runs_of(run, count):
    return [dataclasses.replace(run, name=f"{run.name}-{index}") for index in range(count)]


@pytest.mark.matrix
def test_three_seeds_of_which_one_is_cancelled_and_resumed(run, tmp_path):
    settings = (*ONE_PROCESS, "slurm.array=0-2%2")
    run.variables[HURRY] = str(tmp_path / "hurry")
    process = run.start(*settings)
    runs = runs_of(run, 3)
    for one in runs[:2]:
        one.has_made(12)
    number = runs[1].job.partition("_")[0]
    waits = run.cluster.ask("squeue", "--noheader", f"--jobs={number}_2", "--format=%T %r")
    assert waits == "PENDING JobArrayTaskLimit"
    run.cluster.ask("scancel", runs[1].job)
    runs[2].has_made(1)
    tmp_path.joinpath("hurry").touch()
    said, _ = process.communicate()
    assert process.returncode == 75, f"{said}\n{run.describe()}"
    assert f"1 of 3 runs did not end well, with these exit codes: {run.name}-1 (75)" in said
    for index, one in enumerate(runs):
        assert one.job == f"{number}_{index}"
        assert one.folder.read_config().train.seed == 1 + index
    for one in (runs[0], runs[2]):
        check_done(one, 60)
    assert runs[1].record.status == "stopped"
    saved = run_folder.find_saved_step(runs[1].folder)
    assert saved is not None and 10 <= saved < 60
    run.started.remove(process)
    said = await_end(run, run.start(*settings))
    assert said.count("is already finished; nothing to do") == 2
    assert f"resuming run {run.name}-1" in said and f"\n{run.name}-1: done: step 60" in said
    again = runs[1].job.partition("_")[0]
    assert [n for n in run.cluster.jobs() if n.startswith(f"{again}_")] == [f"{again}_1"]
    check_done(runs[1], 60)
    assert runs[1].record.launches == 2
    assert await_end(run, run.start(*settings)).count("is already finished") == 3


@pytest.mark.matrix
def test_the_script_of_a_dry_run_and_a_time_limit_of_one_run(run, tmp_path):
    """There are no records yet: both runs begin with them at once."""
    run.storage = tmp_path / "out"
    script = tmp_path / "job.sh"
    script.write_text(run.shown(*ONE_PROCESS, "slurm.array=0-1"))
    number = run.cluster.ask(
        "sbatch",
        "--parsable",
        f"--export=ALL,{HURRY}={tmp_path}/hurry",
        f"--output={tmp_path}/%a.out",
        str(script),
    )
    runs = runs_of(run, 2)
    for one in runs:
        one.has_made(12)
    run.cluster.ask("scancel", "--batch", "--signal=TERM", runs[1].job)
    log = pathlib.Path(tmp_path / "1.out")
    real.wait_for(lambda: "time is up" in log.read_text(), run.describe)
    assert run.cluster.jobs()[f"{number}_0"] == "RUNNING"
    tmp_path.joinpath("hurry").touch()
    runs[1].hurry()
    for index, one in enumerate(runs):
        real.wait_for(
            lambda index=index: run.cluster.jobs()[f"{number}_{index}"] == "COMPLETED", run.describe
        )
        check_done(one, 60)
        assert one.folder.read_config().train.seed == 1 + index
    assert "start 2" in log.read_text()
