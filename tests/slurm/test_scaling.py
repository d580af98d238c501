"""Another number of workers while a job trains on a real Slurm; the witness counts."""

from __future__ import annotations

import subprocess
import types

import pytest

from pipeline.runs import run_folder
from tests.faults import witness
from tests.faults.final import Final
from tests.pipeline.process_help import ROOT
from tests.slurm import real
from tests.support.sets import matrix

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMON = (*witness.SETTINGS, "train.steps=null", "train.batch_size=32", "train.save_steps=2000")


def scale(run, workers):
    """Has `make scale` done, and returns its exit code and what it says."""
    done = subprocess.run(
        run.command("pipeline.commands.scale", f"--workers={workers}"),
        cwd=ROOT,
        env=real.environment(run.cluster, run.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def stepping(*tasks):
    def condition(statuses):
        found = [statuses.get(name) for name in tasks]
        return all(one is not None and one.has_stepped for one in found)

    return condition


def check_exact(run, small_records, epochs):
    rig = types.SimpleNamespace(path=run.folder.path, records=small_records)
    final = Final(rig)
    final.check(twice=0)
    assert final.applied.exact
    rows = run.folder.read(run_folder.RESULT)["input"][:epochs]
    assert [row["once"] for row in rows] == [row["due"] for row in rows]


@pytest.mark.parametrize("mode", ["parameter_server", matrix("parameter_server_strategy")])
def test_a_worker_joins_from_a_job_of_its_own_and_others_leave(
    run, slow, small_records, mode, monkeypatch
):
    monkeypatch.setattr(run, "name", f"joins-{mode}")
    process = slow(
        *COMMON,
        f"cluster.strategy={mode}", "cluster.workers=1", "cluster.max_workers=2", "cluster.ps=1",
        "train.epochs=4", pace=0.5,
    )  # fmt: skip
    run.wait_until(stepping("chief-0", "worker-0"))
    before = run_folder.read_statuses(run.folder)
    code, said = scale(run, 2)
    assert (code, said) == (
        0,
        f"run {run.name}: 1 to 2 workers; others join, all others train on\n",
    )
    run.wait_until(stepping("worker-1"))
    assert len(run.cluster.jobs()) >= 2
    code, said = scale(run, 1)
    assert code == 0 and "those that leave hand back their blocks" in said
    run.wait_until(lambda found: found["worker-1"].state == "stopped")
    run.hurry_steps()
    said, _ = process.communicate()
    assert process.returncode == 0, f"{said}\n{run.describe()}"
    assert "2 workers from now on, 1 before" in said and "1 workers from now on, 2 bef" in said
    after = run_folder.read_statuses(run.folder)
    others = ("chief-0", "ps-0", "worker-0", "evaluator-0")
    assert {name: after[name].pid for name in others} == {n: before[n].pid for n in others}
    record = run.record
    assert record.restarts == [] and [one.workers for one in record.scalings] == [2, 1]
    assert record.readers["worker-1"] > 0
    check_exact(run, small_records, 4)


@pytest.mark.matrix
def test_a_gang_saves_once_and_another_job_continues_it(run, slow, small_records):
    process = slow(
        *COMMON,
        "cluster.strategy=multi_worker_mirrored",
        "cluster.workers=1",
        "train.epochs=3",
        pace=0.3,
    )
    run.wait_until(stepping("chief-0", "worker-0"))
    first = run.job
    code, said = scale(run, 2)
    run.hurry_steps()
    assert code == 0, said
    assert f"Slurm job {first}: all processes save" in said
    assert "1 to 2 workers; all that train save and start again" in said
    said, _ = process.communicate()
    assert process.returncode == 0, f"{said}\n{run.describe()}"
    assert run.job != first and run.record.topology["worker"] == 2
    assert run.cluster.jobs()[run.job] == "COMPLETED"
    check_exact(run, small_records, 3)


@pytest.mark.matrix
def test_a_worker_that_has_joined_comes_back_when_the_job_does(run, slow, small_records):
    """The run's own job is put into the queue again, and has other addresses then."""
    process = slow(
        *COMMON, "cluster.strategy=parameter_server", "cluster.workers=1",
        "cluster.max_workers=2", "train.epochs=6", "train.save_steps=50", pace=0.4,
    )  # fmt: skip
    run.wait_until(stepping("chief-0", "worker-0"))
    assert scale(run, 2)[0] == 0
    run.wait_until(lambda found: stepping("worker-1")(found) and found["chief-0"].step > 50)
    before = run_folder.read_statuses(run.folder)["worker-1"].pid
    run.cluster.ask("scontrol", "requeue", run.job)
    run.hurry()

    def is_back(found):
        return stepping("worker-1", "chief-0")(found) and found["worker-1"].pid != before

    run.wait_until(is_back)
    run.hurry_steps()
    said, _ = process.communicate()
    assert process.returncode == 0, f"{said}\n{run.describe()}"
    assert f"job {run.job}, start 2" in said
    assert run.record.topology["worker"] == 2
    rig = types.SimpleNamespace(path=run.folder.path, records=small_records)
    final = Final(rig)
    final.check(twice=2 * 32)  # what was in flight while the last checkpoint was written
