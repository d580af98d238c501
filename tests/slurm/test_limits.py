"""Limits of accounts and QOS, on a real Slurm with a real account database."""

from __future__ import annotations

import dataclasses
import os
import pwd

import pytest

from pipeline.runs import run_folder
from tests.slurm import accounting, real
from tests.slurm.ends import check_done, ended

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = ("cluster.strategy=multi_worker_mirrored", "cluster.workers=1", "slurm.nodes=3")
ACCOUNTS = {
    "free": "",
    "brief": "MaxWall=10",
    "small": "MaxTRESPerJob=cpu=1",
    "compact": "MaxTRESPerJob=node=1",
    "closed": "MaxSubmitJobs=0",
    "single": "MaxJobs=1",
}
QOS = {
    "tiny": ("MaxTRESPerJob=cpu=1",),
    "strict": ("MaxTRESPerJob=cpu=1", "Flags=DenyOnLimit"),
    "thin": ("MaxTRESPerNode=cpu=1",),
    "quick": ("MaxWall=10",),
    "large": ("MinTRESPerJob=cpu=64",),
    "foreign": (),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster whose accounts and QOS have limits; the user has them all but one of each."""
    if missing := [*real.missing(), *accounting.missing()]:
        pytest.skip(
            f"no accounting of Slurm here, {missing[0]} is missing: apt-get install slurm-wlm "
            "slurmdbd mariadb-server-core mariadb-client-core"
        )
    made = real.Slurm(tmp_path_factory.mktemp("limits"))
    user = pwd.getpwuid(os.getuid()).pw_name
    with accounting.running(made):
        accounting.change(made, "add", "cluster", "test")
        for name, limit in ACCOUNTS.items():
            accounting.change(made, "add", "account", name)
            limits = [limit] if limit else []
            accounting.change(made, "add", "user", user, f"account={name}", *limits)
        accounting.change(made, "add", "account", "others")
        for name, limits in QOS.items():
            accounting.change(made, "add", "qos", name, *limits)
        allowed = ",".join(["normal", *(name for name in QOS if name != "foreign")])
        accounting.change(made, "modify", "user", user, "set", f"qos={allowed}")
        accounting.change(made, "modify", "user", user, "set", "defaultaccount=free")
        try:
            made.start()
            yield made
        finally:
            made.stop()


@dataclasses.dataclass(frozen=True)
class Limit:
    """What the last line of the command begins with and has."""

    settings: tuple[str, ...]
    has: str
    begins: str = "error: Slurm job "


REFUSED = "error: sbatch: Batch job submission failed: "
NEVER = " can never start ({}), and is cancelled. "
LESS = "Ask for less with slurm.time, slurm.nodes, slurm.cpus"
ROWS = [
    Limit(("slurm.account=others",), "Choose an account and partition", REFUSED),
    Limit(("slurm.qos=unknown",), "Choose a QOS that you may use", REFUSED),
    Limit(("slurm.qos=foreign",), "Choose a QOS that you may use", REFUSED),
    Limit(
        ("slurm.account=closed",),
        "It is a limit of your account or QOS",
        "error: sbatch: AssocMaxSubmitJobLimit; ",
    ),
    Limit(
        ("slurm.qos=strict",),
        "It is a limit of your account or QOS",
        "error: sbatch: QOSMaxCpuPerJobLimit; ",
    ),
    Limit(
        ("slurm.account=brief", "slurm.time=01:00:00"),
        NEVER.format("AssocMaxWallDurationPerJobLimit") + LESS,
    ),
    Limit(("slurm.account=small",), NEVER.format("AssocMaxCpuPerJobLimit") + LESS),
    Limit(("slurm.account=compact",), NEVER.format("AssocMaxNodePerJobLimit") + LESS),
    Limit(("slurm.qos=tiny",), NEVER.format("QOSMaxCpuPerJobLimit") + LESS),
    Limit(("slurm.qos=thin", "slurm.nodes=1"), NEVER.format("QOSMaxCpuPerNode") + LESS),
    Limit(
        ("slurm.qos=quick", "slurm.time=01:00:00"),
        NEVER.format("QOSMaxWallDurationPerJobLimit") + LESS,
    ),
    Limit(("slurm.qos=large",), NEVER.format("QOSMinCpuNotSatisfied") + "Ask for more"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row.settings))
def test_a_job_beyond_a_limit_ends_in_one_line_with_what_to_do(run, row):
    process = run.start(*SETTINGS, *row.settings)
    said, _ = process.communicate()
    last = said.splitlines()[-1]
    assert process.returncode == 64, said
    assert last.startswith(row.begins) and row.has in last, said
    assert "Traceback" not in said
    assert run_folder.read_statuses(run.folder) == {}
    assert not [n for n, word in run.cluster.jobs().items() if word in ("PENDING", "RUNNING")]


def test_a_limit_for_all_jobs_of_an_account_is_waited_for(run, tmp_path):
    script = tmp_path / "other.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    other = run.cluster.ask(
        "sbatch", "--parsable", "--account=single", "--output=/dev/null", str(script)
    )
    real.wait_for(lambda: run.cluster.jobs()[other] == "RUNNING", run.cluster.describe)
    process = run.start(
        "slurm.account=single", "cluster.strategy=none", "train.epochs=null", "train.steps=20"
    )
    real.wait_for(
        lambda: "AssocMaxJobsLimit" in run.cluster.ask("squeue", "--noheader", "--format=%r"),
        run.cluster.describe,
    )
    run.cluster.ask("scancel", other)
    said = ended(run, process)
    check_done(run, 20)
    assert "pending (AssocMaxJobsLimit). It is a limit for all jobs of your account or QOS" in said
