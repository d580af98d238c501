"""Whole jobs on a real Slurm: slurmctld and three slurmds, srun and sbatch as they are."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal

import pytest

from pipeline.runs import run_folder, run_lock
from tests.faults import injected
from tests.pipeline.process_help import ROOT
from tests.slurm import real
from tests.slurm.ends import await_end, check_done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ASYNCHRONOUS = (
    "cluster.strategy=parameter_server",
    "cluster.workers=1",
    "cluster.ps=1",
    "slurm.nodes=3",
    "train.save_steps=50",
    "train.steps=400",
    "train.epochs=null",
)
GANG = (
    "cluster.strategy=multi_worker_mirrored",
    "cluster.workers=1",
    "train.save_steps=200",
    "train.steps=3000",
    "train.epochs=null",
)


def test_the_script_that_a_dry_run_prints_trains(run, tmp_path):
    """Nothing but the records has been made for it; a second one of the same run is refused, and
    so is an array of it."""
    shown = run.shown(*GANG, "train.steps=200")
    assert not run.storage.joinpath("runs", run.name).exists()
    script = tmp_path / "job.sh"
    script.write_text(shown)
    submit = ("sbatch", "--parsable", f"--output={tmp_path}/%j.out")
    first = run.cluster.ask(*submit, "--array=1-2", str(script))
    real.wait_for(
        lambda: (
            [w for n, w in run.cluster.jobs().items() if n.startswith(f"{first}_")]
            == ["FAILED", "FAILED"]
        ),
        run.describe,
    )
    said = (tmp_path / f"{first}.out").read_text()
    assert f"job {first} is one of an array, all of which would be run '{run.name}'" in said
    number = run.cluster.ask(*submit, str(script))
    real.wait_for(lambda: run_folder.read_statuses(run.folder), run.describe)
    assert run.cluster.jobs()[number] == "RUNNING"
    assert run.job == number
    other = run.cluster.ask(*submit, str(script))
    real.wait_for(lambda: run.cluster.jobs()[other] == "FAILED", run.describe)
    said = (tmp_path / f"{other}.out").read_text()
    assert f"'{run.name}': is running as job {number} already. End it with make stop" in said
    real.wait_for(lambda: run.cluster.jobs()[number] == "COMPLETED", run.describe)
    check_done(run, 200)


def test_ctrl_c_leaves_a_job_that_the_same_command_follows_and_stop_ends(run, slow):
    settings = (*ASYNCHRONOUS, "slurm.nodes=2")
    process = slow(*settings, pace=0.5)
    run.has_made(2)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 75 and "keeps running as Slurm job" in said, said
    assert run.cluster.jobs()[run.job] == "RUNNING"
    run.started.remove(process)
    run.variables.clear()
    process = run.start(f"train.hooks=[{injected.HOOK}]", *settings)
    assert "asked to stop" in run.call_without_run("pipeline.commands.stop", f"--run={run.name}")
    run.hurry_steps()
    said = await_end(run, process)
    assert "has been submitted already; following it" in said
    check_done(run, 2)
    assert run.record.reason == "stop requested" and run.record.final_step < 400
    assert run.cluster.jobs()[run.job] == "COMPLETED"


@pytest.mark.matrix
def test_time_that_is_up_saves_and_resumes(run):
    """The signal is that which Slurm sends before the limit."""
    process = run.start(*ASYNCHRONOUS)
    run.has_made(20)
    run.cluster.ask("scancel", "--batch", "--signal=TERM", run.job)
    log = pathlib.Path(run.folder.log_path("slurm"))
    real.wait_for(lambda: "time is up" in log.read_text(), run.describe)
    saved = run_folder.find_saved_step(run.folder)
    assert saved is not None and saved >= 20
    run.hurry()
    said = await_end(run, process)
    check_done(run, 400)
    assert "asked to end: all processes save" in said and "start 2" in said


def signal_trainers(statuses, number):
    for name in ("chief-0", "worker-0"):
        with contextlib.suppress(ProcessLookupError):  # Slurm has ended it
            os.kill(statuses[name].pid, number)


@pytest.mark.matrix
def test_a_lost_node_puts_the_job_back(run):
    """The daemon of a node is killed; what it has started there lives on, until it finds itself
    left over. The job continues without that node, next to another job."""
    process = run.start(*ASYNCHRONOUS, "slurm.nodes=2", "cluster.watchdog_seconds=600")
    run.has_made(60)
    before = run_folder.read_statuses(run.folder)
    # All steps would be made before Slurm misses the node.
    signal_trainers(before, signal.SIGSTOP)
    node = run.cluster.ask("squeue", "--noheader", f"--jobs={run.job}", "--format=%N")
    assert node == "n[1-2]"
    run.cluster.kill_daemon("n2")
    try:
        real.wait_for(lambda: run.cluster.states()["n2"].startswith("down"), run.describe)
        run.hurry()
        run.wait_until(
            lambda found: "chief-0" in found and found["chief-0"].pid != before["chief-0"].pid
        )
        signal_trainers(before, signal.SIGCONT)
        await_end(run, process)
    finally:
        signal_trainers(before, signal.SIGCONT)
        run.cluster.start_daemon("n2")
    check_done(run, 400)
    for status in before.values():
        real.wait_for(lambda status=status: not run_lock.is_alive(status.pid), run.describe)


def test_preprocessing_is_a_job_of_one_task(run, tmp_path):
    """The script of a dry run makes the same records, in a folder that nobody has made for it."""
    run.storage = tmp_path / "out"
    options = ("--cluster=slurm", "--num_workers=2", f"--config={run.config_path}")
    script = tmp_path / "job.sh"
    script.write_text(run.call_without_run("preprocessing.main", *options, "--dry_run"))
    number = run.cluster.ask("sbatch", "--parsable", str(script))
    real.wait_for(lambda: run.cluster.jobs()[number] in ("COMPLETED", "FAILED"), run.describe)
    output = ROOT / f"slurm-{number}.out"  # where the command is run
    said = output.read_text()
    output.unlink()
    assert "test 500" in said and "workers: 2" in said
    given = ("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%C")
    assert run.cluster.ask(*given) == "2"
    run.storage = tmp_path
    said = run.call_without_run("preprocessing.main", *options)
    assert "Slurm: completed" in said and "train 2,844, eval 156, test 500" in said
    assert "up to date" in run.call_without_run("preprocessing.main", *options)
