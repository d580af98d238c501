"""A real Slurm whose users are authenticated by munge, as most sites have it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal

import pytest

from pipeline.runs import run_folder
from tests.slurm import accounting, munge, real
from tests.slurm.ends import await_end, check_done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if missing := [*real.list_missing(), *accounting.list_missing(), *munge.list_missing()]:
        pytest.skip(
            f"no Slurm with munge here, {missing[0]} is missing: apt-get install slurm-wlm "
            "slurmdbd mariadb-server-core mariadb-client-core munge"
        )
    made = real.Slurm(tmp_path_factory.mktemp("munge"))
    # A node counts as lost while nobody reaches munge; these tests are not about that.
    text = made.config.read_text()
    assert "SlurmdTimeout=20" in text
    made.config.write_text(text.replace("SlurmdTimeout=20", "SlurmdTimeout=300"))
    with munge.authenticate(made), accounting.run_accounting(made):
        accounting.change(made, "add", "cluster", "test")
        accounting.change(made, "add", "account", "team")
        accounting.change(made, "add", "user", real.USER, "account=team")
        try:
            made.start()
            yield made
        finally:
            made.stop()


def test_a_run_trains_and_its_job_is_accounted(run):
    shown = run.cluster.ask("scontrol", "show", "config")
    kinds = {line.split()[0]: line.split()[2] for line in shown.splitlines() if "Type " in line}
    assert (kinds["AuthType"], kinds["CredType"]) == ("auth/munge", "cred/munge")
    process = run.start(
        "cluster.strategy=parameter_server", "cluster.workers=1", "slurm.nodes=3",
        "train.epochs=null", "train.steps=100",
    )  # fmt: skip
    await_end(run, process)
    check_done(run, 100)
    real.wait_for(
        lambda: (
            "COMPLETED"
            in run.cluster.ask("sacct", "--noheader", f"--jobs={run.job}", "--format=State").split()
        ),
        run.describe,
    )


@pytest.mark.matrix
def test_a_worker_that_is_lost_while_munge_is_away(run, slow):
    """Its srun never learns of that; without a worker no step is made."""
    process = slow(
        "cluster.strategy=parameter_server_sync", "cluster.workers=1", "slurm.nodes=2",
        "cluster.watchdog_seconds=20", "train.epochs=null", "train.steps=60",
        "train.save_steps=20", "train.batch_size=32", pace=0.2,
    )  # fmt: skip
    run.has_made(22)
    before = run_folder.read_statuses(run.folder)
    gang = ("chief-0", "worker-0")
    with munge.stop_within(run.cluster):
        os.kill(before["worker-0"].pid, signal.SIGKILL)
        log = pathlib.Path(run.folder.log_path("slurm"))
        real.wait_for(lambda: "Failed to send MESSAGE_TASK_EXIT" in log.read_text(), run.describe)
    run.wait_until(lambda found: all(n in found and found[n].pid != before[n].pid for n in gang))
    run.hurry_steps()
    await_end(run, process)
    check_done(run, 60)
    assert [f"{one.role}-{one.index}" for one in run.record.restarts] == ["worker-0"]


@pytest.mark.parametrize(
    ("has_munged", "words"),
    [
        (False, "munge has to run here, with the key of the cluster"),
        (True, "munge has another key or clock here than there"),
    ],
    ids=["no munged", "another key"],
)
def test_a_machine_without_the_munge_of_the_cluster(run, tmp_path, has_munged, words):
    munged = munge.run_munge(run.cluster, "other") if has_munged else contextlib.nullcontext("none")
    with munged as socket:
        own = run.cluster.config.parent / "munge" / "socket"
        config = tmp_path / "slurm.conf"
        config.write_text(run.cluster.config.read_text().replace(str(own), str(socket)))
        run.variables["SLURM_CONF"] = str(config)
        process = run.start()
        said, _ = process.communicate()
    last = said.splitlines()[-1]
    assert process.returncode == 75, said
    assert last.startswith("error: squeue: ") and last.endswith(
        f"{words}. Run the same command again."
    )
    assert "Traceback" not in said
    assert run_folder.read_statuses(run.folder) == {}
