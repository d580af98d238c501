"""A real Slurm that finds the processes of a job by their cgroup, as most sites have it."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

from pipeline.runs import run_folder
from tests.slurm import real
from tests.slurm.ends import await_end, check_done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Where cgroup/v1 of Slurm has them.
_FREEZER = "/sys/fs/cgroup/freezer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if missing := real.list_missing():
        pytest.skip(f"no Slurm here, {missing[0]} is missing: apt-get install slurm-wlm")
    if not os.access(_FREEZER, os.W_OK):
        pytest.skip(f"Slurm cannot make cgroups here: {_FREEZER} is not there or not writable")
    with real.run_cluster(tmp_path_factory.mktemp("cgroups"), tracking="cgroup") as made:
        yield made


@pytest.mark.matrix
def test_a_killed_worker_comes_back_and_time_that_is_up_saves_and_resumes(run, slow):
    process = slow(
        "cluster.strategy=parameter_server", "cluster.workers=1", "slurm.nodes=2",
        "train.epochs=null", "train.steps=200", "train.save_steps=20", pace=0.2,
    )  # fmt: skip
    run.has_made(22, "worker-0")
    killed = run_folder.read_statuses(run.folder)["worker-0"].pid
    assert f"/job_{run.job}/step_" in pathlib.Path(f"/proc/{killed}/cgroup").read_text()
    os.kill(killed, signal.SIGKILL)
    run.wait_until(lambda found: found["worker-0"].pid != killed and found["worker-0"].has_stepped)
    run.cluster.ask("scancel", "--batch", "--signal=TERM", run.job)
    log = pathlib.Path(run.folder.log_path("slurm"))
    real.wait_for(lambda: "time is up" in log.read_text(), run.describe)
    saved = run_folder.find_saved_step(run.folder)
    assert saved is not None and saved >= 22
    run.hurry_steps()
    run.hurry()
    said = await_end(run, process)
    check_done(run, 200)
    assert "worker-0: killed by SIGKILL" in said
    assert "asked to end: all processes save" in said and "start 2" in said
