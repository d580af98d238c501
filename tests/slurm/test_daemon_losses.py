"""Programs that a job stands on, killed on a real Slurm: its controller, and its own on a node."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pipeline.faults import processes
from pipeline.runs import run_folder
from tests.slurm.ends import await_end, check_done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ASYNCHRONOUS, GANG = "parameter_server", "parameter_server_sync"
SHORT = (
    "slurm.nodes=2",
    "train.epochs=null",
    "train.steps=80",
    "train.batch_size=32",
)


@pytest.mark.matrix
def test_the_controller_killed_together_with_a_parameter_server(run, slow):
    """The next step is checked for and started while the controller comes back."""
    process = slow(*SHORT, f"cluster.strategy={GANG}", "train.save_steps=1000", pace=0.3)
    run.has_made(30, "ps-0")
    before = run_folder.read_statuses(run.folder)
    run.cluster.kill_daemon("slurmctld")
    try:
        os.kill(before["ps-0"].pid, signal.SIGKILL)
        time.sleep(8)
    finally:
        run.cluster.start_daemon("slurmctld")
    run.wait_until(
        lambda found: (
            found.keys() >= {"chief-0", "ps-0"}
            and found["ps-0"].pid != before["ps-0"].pid
            and found["chief-0"].has_stepped
        )
    )
    run.hurry_steps()
    said = await_end(run, process)
    check_done(run, 80)
    assert "starting all processes again" in said
    [restart] = run.record.restarts
    assert restart.gang and restart.time is not None
    assert restart.step >= 30 and restart.steps_lost == restart.step


@pytest.mark.matrix
@pytest.mark.parametrize("mode", [ASYNCHRONOUS, GANG])
def test_the_program_of_a_job_killed(run, slow, mode):
    """Slurm ends the steps of the job; the same command continues the run in another job."""
    run.name = f"{mode}-job-killed"
    settings = (*SHORT, f"cluster.strategy={mode}", "train.steps=200", "train.save_steps=20")
    process = slow(*settings, pace=0.3)
    run.has_made(30, "ps-0")
    path, first = run.folder.path, run.job
    before = run_folder.read_statuses(run.folder)
    [program] = [
        pid
        for pid in processes.processes_of(path)
        if b"--part=batch" in processes.command_line(pid)
    ]
    os.kill(program, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 75, said
    assert run.cluster.jobs()[first] == "FAILED"
    assert not processes.find_survivors(path, [one.pid for one in before.values()])
    run.started.remove(process)
    saved = run_folder.find_saved_step(run.folder)
    assert saved is not None and saved >= 20
    process = slow(*settings, pace=0.0)
    await_end(run, process)
    check_done(run, 200)
    assert run.job != first
