"""Each mode with processes on a real Slurm, jobs next to each other, and what is taken away."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal

import pytest

from pipeline.runs import run_folder
from tests.slurm import real
from tests.slurm.ends import await_end, check_done
from tests.support.sets import matrix

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHORT = ("train.epochs=null", "train.steps=60", "train.save_steps=20", "train.batch_size=32")


def _is_back(victim, killed):
    """Returns a condition: another process has the role, and the chief makes steps."""

    def condition(found):
        return (
            found.keys() >= {victim, "chief-0"}
            and found[victim].pid != killed
            and found["chief-0"].has_stepped
        )

    return condition


@pytest.mark.parametrize(
    ("mode", "victims", "others_stay"),
    [
        ("parameter_server", ("ps-0", "chief-0", "worker-0"), True),
        matrix("parameter_server_strategy", ("worker-0",), True),
        matrix("parameter_server_sync", ("worker-0",), False),
    ],
)
def test_killed_roles_of_a_mode_are_started_again(run, slow, mode, victims, others_stay):
    """The last of them is a worker, without which the others step on: slowly enough."""
    run.name = f"{mode}-killed"
    settings = (*SHORT, "train.steps=400", f"cluster.strategy={mode}", "slurm.nodes=2")
    process = slow(*settings, pace=0.3)
    run.has_made(22, "evaluator-0", *victims)
    first = run_folder.read_statuses(run.folder)
    for victim in victims:
        killed = run_folder.read_statuses(run.folder)[victim].pid
        os.kill(killed, signal.SIGKILL)
        run.wait_until(_is_back(victim, killed))
    run.hurry_steps()
    said = await_end(run, process)
    check_done(run, 400)
    after = run_folder.read_statuses(run.folder)
    stayed = {name for name in first if after[name].pid == first[name].pid}
    assert stayed == ({*first} - {*victims} if others_stay else set())
    if others_stay:
        assert all(f"{victim}: killed by SIGKILL" in said for victim in victims)
        restarts = [f"{one.role}-{one.index}" for one in run.record.restarts]
        assert restarts == [*victims]
    else:
        assert "starting all processes again" in said
        assert all(one.gang and one.time for one in run.record.restarts)
        assert run.record.restarts[0].step >= 22
        assert run.record.restarts[0].steps_lost is not None


@pytest.mark.matrix
def test_a_process_that_hangs_is_found(run, slow):
    """The others of a gang wait for it; nobody else would ever end that."""
    mode = "cluster.strategy=multi_worker_mirrored"
    process = slow(*SHORT, mode, "cluster.watchdog_seconds=5", pace=0.2)
    run.has_made(22)
    before = run_folder.read_statuses(run.folder)
    os.kill(before["worker-0"].pid, signal.SIGSTOP)
    gang = ("chief-0", "worker-0")
    run.wait_until(lambda found: all(n in found and found[n].pid != before[n].pid for n in gang))
    run.hurry_steps()
    said = await_end(run, process)
    check_done(run, 60)
    assert "no step for" in said and "starting all processes again" in said


@pytest.mark.matrix
def test_two_jobs_train_next_to_each_other(run, slow):
    """On the same nodes, by ports of their own."""
    other = dataclasses.replace(run, name="the-other", variables={}, started=run.started)
    mode = ("cluster.strategy=parameter_server", "slurm.nodes=3")
    one = slow(*SHORT, *mode, pace=2)
    two = other.start("train.epochs=null", "train.steps=2000", *mode)

    def at_once(found):
        chief = run_folder.read_status(other.folder, "chief-0")
        return "chief-0" in found and found["chief-0"].has_stepped and chief and chief.has_stepped

    run.wait_until(at_once)
    states = run.cluster.jobs()
    assert [states[run.job], states[other.job]] == ["RUNNING", "RUNNING"]
    run.hurry_steps()
    await_end(other, two)
    await_end(run, one)
    check_done(run, 60)
    check_done(other, 2000)


@pytest.mark.matrix
def test_a_job_that_makes_room_for_an_urgent_one_saves_and_resumes(run, slow, tmp_path):
    urgent = tmp_path / "urgent.sh"
    urgent.write_text("#!/bin/sh\nsleep 3\n")
    options = ("--parsable", "--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null")
    process = slow(*SHORT, "cluster.strategy=parameter_server", "slurm.nodes=2", pace=1)
    run.has_made(22)
    other = run.cluster.ask("sbatch", *options, str(urgent))
    real.wait_for(lambda: run.cluster.jobs()[other] == "COMPLETED", run.describe)
    assert run_folder.find_saved_step(run.folder) > 20
    run.hurry_steps()
    run.hurry()
    said = await_end(run, process)
    check_done(run, 60)
    assert "asked to end: all processes save" in said and "start 2" in said


@pytest.mark.matrix
def test_a_node_that_is_drained_keeps_its_job_and_gets_no_other(run, slow):
    process = slow(*SHORT, "cluster.strategy=parameter_server", "slurm.nodes=1", pace=4)
    run.has_made(1)
    node = run.cluster.ask("squeue", "--noheader", f"--jobs={run.job}", "--format=%N")
    run.cluster.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        other = dataclasses.replace(run, name="elsewhere", variables={}, started=run.started)
        second = other.start("cluster.strategy=none", "train.epochs=null", "train.steps=20")
        await_end(other, second)
        shown = run.cluster.ask("scontrol", "--oneliner", "show", "job", other.job)
        assert f"NodeList={node} " not in shown and " NodeList=n" in shown
        assert run.cluster.states()[node] == "draining"
        run.hurry_steps()
        await_end(run, process)
        assert run.cluster.states()[node] == "drained"
    finally:
        run.cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
    run.cluster.wait_until_idle()
    check_done(run, 60)
    assert run.record.restarts == []


@pytest.mark.matrix
def test_slurm_s_own_time_limit_saves_and_resumes(run, slow):
    """Slurm looks at limits about twice a minute, so its signal may come before the first step. The
    second start has the time that a busy machine takes."""
    process = slow(
        *SHORT, "train.steps=400", "cluster.strategy=parameter_server", "slurm.time=00:01:00",
        "slurm.warn_seconds=30", pace=0.5,
    )  # fmt: skip
    log = pathlib.Path(run.folder.log_path("slurm"))
    real.wait_for(lambda: log.exists() and "time is up" in log.read_text(), run.describe)
    run.cluster.ask("scontrol", "update", f"JobId={run.job}", "TimeLimit=10")
    run.hurry_steps()
    run.hurry()
    said = await_end(run, process)
    check_done(run, 400)
    assert "asked to end: all processes save" in said and "start 2" in said
