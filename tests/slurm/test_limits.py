"""Limits of accounts and QOS, on a real Slurm with a real account database."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline.runs import run_folder
from tests.slurm import accounting, real
from tests.slurm.ends import await_end, check_done
from tests.support.sets import matrix, matrix_unless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = ("cluster.strategy=multi_worker_mirrored", "cluster.workers=1", "slurm.nodes=3")
ACCOUNTS = {
    "free": "",
    "brief": "MaxWall=10",
    "small": "MaxTRESPerJob=cpu=1",
    "compact": "MaxTRESPerJob=node=1",
    "closed": "MaxSubmitJobs=0",
    "single": "MaxJobs=1",
    "lone": "GrpTRES=cpu=1",
    "pair": "GrpTRES=cpu=2",
    "hour": "GrpTRESRunMins=cpu=60",
}
QOS = {
    "tiny": ("MaxTRESPerJob=cpu=1",),
    "strict": ("MaxTRESPerJob=cpu=1", "Flags=DenyOnLimit"),
    "thin": ("MaxTRESPerNode=cpu=1",),
    "quick": ("MaxWall=10",),
    "large": ("MinTRESPerJob=cpu=64",),
    "all": ("GrpTRES=cpu=2",),
    "nodes": ("GrpTRES=node=2",),
    "devices": (),  # the controller tells the database which resources there are
    "user": ("MaxTRESPerUser=cpu=2",),
    "memory": ("MaxTRESPerUser=mem=1G",),
    "account": ("MaxTRESPerAccount=cpu=2",),
    "foreign": (),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster whose accounts and QOS have limits; the user has them all but one of each."""
    if missing := [*real.list_missing(), *accounting.list_missing()]:
        pytest.skip(
            f"no accounting of Slurm here, {missing[0]} is missing: apt-get install slurm-wlm "
            "slurmdbd mariadb-server-core mariadb-client-core"
        )
    made = real.Slurm(tmp_path_factory.mktemp("limits"))
    # Memory is counted, and given by the processor.
    text = made.config.read_text().replace("CR_Core", "CR_Core_Memory\nDefMemPerCPU=100")
    made.config.write_text(text.replace(" State=UNKNOWN", " RealMemory=4096 State=UNKNOWN"))
    with accounting.run_accounting(made):
        accounting.change(made, "add", "cluster", "test")
        for name, limit in ACCOUNTS.items():
            accounting.change(made, "add", "account", name)
            limits = [limit] if limit else []
            accounting.change(made, "add", "user", real.USER, f"account={name}", *limits)
        accounting.change(made, "add", "account", "others")
        accounting.change(made, "add", "account", "department", "GrpTRES=cpu=2")
        accounting.change(made, "add", "account", "team", "parent=department")
        accounting.change(made, "add", "user", real.USER, "account=team")
        for name, limits in QOS.items():
            accounting.change(made, "add", "qos", name, *limits)
        allowed = ",".join(["normal", *(name for name in QOS if name != "foreign")])
        accounting.change(made, "modify", "user", real.USER, "set", f"qos={allowed}")
        accounting.change(made, "modify", "user", real.USER, "set", "defaultaccount=free")
        try:
            made.start()
            accounting.change(made, "modify", "qos", "devices", "set", "GrpTRES=gres/gpu=1")
            made.ask("scontrol", "create", "PartitionName=guarded", "Nodes=ALL", "QOS=all")
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
ALL = " for all its jobs (GrpTRES). Ask for less with "
USER = " for all jobs of a user (MaxTRESPerUser). Ask for less with "
ACCOUNT = " for all jobs of an account (MaxTRESPerAccount). Ask for less with "
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
    Limit(
        ("slurm.account=pair",),
        NEVER.format("AssocGrpCpuLimit") + f"It asks for cpu=3, and user {real.USER} in account "
        f"pair allows cpu=2{ALL}slurm.cpus",
    ),
    Limit(
        ("slurm.account=hour", "slurm.time=01:00:00"),
        NEVER.format("AssocGrpCPURunMinutesLimit") + "It asks for cpu=3 for 01:00:00, and user "
        f"{real.USER} in account hour allows cpu=60 for all its jobs, times minutes "
        "(GrpTRESRunMins). Ask for less with slurm.time",
    ),
    Limit(
        ("slurm.account=team",),
        NEVER.format("AssocGrpCpuLimit")
        + f"It asks for cpu=3, and account department allows cpu=2{ALL}slurm.cpus",
    ),
    Limit(
        ("slurm.qos=all",),
        NEVER.format("QOSGrpCpuLimit")
        + f"It asks for cpu=3, and QOS all allows cpu=2{ALL}slurm.cpus",
    ),
    Limit(
        ("slurm.partition=guarded",),
        NEVER.format("QOSGrpCpuLimit")
        + f"It asks for cpu=3, and QOS all allows cpu=2{ALL}slurm.cpus",
    ),
    Limit(
        ("slurm.qos=nodes",),
        NEVER.format("QOSGrpNodeLimit")
        + f"It asks for node=3, and QOS nodes allows node=2{ALL}slurm.nodes",
    ),
    Limit(
        ("slurm.qos=devices", "slurm.gpus=1"),
        NEVER.format("QOSGrpGRES")
        + f"It asks for gres/gpu=3, and QOS devices allows gres/gpu=1{ALL}slurm.gpus",
    ),
    Limit(
        ("slurm.qos=user",),
        NEVER.format("QOSMaxCpuPerUserLimit")
        + f"It asks for cpu=3, and QOS user allows cpu=2{USER}slurm.cpus",
    ),
    Limit(
        ("slurm.qos=memory", "slurm.memory_gb=1"),
        NEVER.format("QOSMaxMemoryPerUser")
        + f"It asks for mem=3G, and QOS memory allows mem=1G{USER}slurm.memory_gb",
    ),
    Limit(
        ("slurm.qos=account",),
        NEVER.format("MaxCpuPerAccount")
        + f"It asks for cpu=3, and QOS account allows cpu=2{ACCOUNT}slurm.cpus",
    ),
]


@pytest.mark.parametrize(
    "row",  # every other one is in `make test-slow`
    [matrix_unless(number % 2 == 0, row) for number, row in enumerate(ROWS)],
    ids=lambda row: " ".join(row.settings),
)
def test_a_job_beyond_a_limit_ends_in_one_line_with_what_to_do(run, row):
    process = run.start(*SETTINGS, *row.settings)
    said, _ = process.communicate()
    last = said.splitlines()[-1]
    assert process.returncode == 64, said
    assert last.startswith(row.begins) and row.has in last, said
    assert "Traceback" not in said
    assert run_folder.read_statuses(run.folder) == {}
    assert not [n for n, word in run.cluster.jobs().items() if word in ("PENDING", "RUNNING")]


@pytest.mark.parametrize(
    ("account", "reason"), [("single", "AssocMaxJobsLimit"), matrix("lone", "AssocGrpCpuLimit")]
)
def test_a_limit_for_all_jobs_of_an_account_is_waited_for(run, tmp_path, account, reason):
    run.name += f"_{account}"  # the other case's is done
    script = tmp_path / "other.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    other = run.cluster.ask(
        "sbatch", "--parsable", f"--account={account}", "--output=/dev/null", str(script)
    )
    real.wait_for(lambda: run.cluster.jobs()[other] == "RUNNING", run.cluster.describe)
    process = run.start(
        f"slurm.account={account}", "cluster.strategy=none", "train.epochs=null", "train.steps=20"
    )
    waits = next(line for line in process.stdout if reason in line)
    assert f"pending ({reason}). It is a limit for all jobs of your account or QOS" in waits
    assert "is not known" not in waits
    run.cluster.ask("scancel", other)
    await_end(run, process)
    check_done(run, 20)
