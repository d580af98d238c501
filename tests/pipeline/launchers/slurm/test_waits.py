"""What becomes of a job that waits, with stand-ins for Slurm's programs."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.launchers.slurm import commands, waits

JOB = (
    "JobId=3 JobName=train-r UserId=ann(7) Account=small QOS=tiny TimeLimit=1-01:00:00 "
    "Partition={} TRES={} Comment=x"
)
ASKED = "cpu=6,mem=3G,node=3,billing=6,gres/gpu=2"


@pytest.fixture
def slurm(monkeypatch):
    """Returns what Slurm's programs print, by what their command has; an error is raised."""
    said: dict[str, str | errors.PipelineError] = {}

    def ask(*words: str) -> str:
        found = next(text for key, text in said.items() if key in " ".join(words))
        if isinstance(found, errors.PipelineError):
            raise found
        return found

    monkeypatch.setattr(commands, "ask", ask)
    waits._find_excess.cache_clear()
    return said


@pytest.fixture
def limited(slurm):
    """Returns a cluster with a waiting job, an account, the one above it, and two QOS."""
    slurm["show job"] = JOB.format("main", ASKED)
    slurm["show config"] = "ClusterName             = test\n"
    slurm["cluster=test account=small"] = "||team|node=2\nann||small|\nbob||small|cpu=1\n"
    slurm["cluster=test account=team"] = "||root|cpu=4\n"
    slurm["cluster=test account=root"] = "|||\n"
    slurm["show partition"] = "PartitionName=main AllowQos=ALL QoS=N/A TRES=cpu=12"
    slurm["show qos"] = "tiny||\n"
    return slurm


def prospect(reason, word="PENDING"):
    return waits.find_prospect("3", word, reason)


@pytest.mark.parametrize(
    ("where", "reason", "final"),
    [
        ("short|1|1", "PartitionTimeLimit", True),
        ("short,main|1|1", "PartitionTimeLimit", False),
        ("main|3|1", "PartitionNodeLimit", True),
        ("main|1|1", "PartitionNodeLimit", False),  # the nodes there are may be down
        ("main|1|9", "PartitionConfig", True),
        ("main|1|8", "PartitionConfig", False),
        ("main|1|1", "Job's account not known, so it can't use this partition", True),
        ("main|1|1", "ReqNodeNotAvail, UnavailableNodes:n1", False),
        ("main|1|1", "AssocMaxJobsLimit", False),
        ("main|1|1", "Resources", False),
        ("main|1|1", "", False),
        ("", "PartitionTimeLimit", False),  # it is gone
    ],
)
def test_a_job_that_waits_for_ever(slurm, where, reason, final):
    slurm.update(squeue=where, sinfo="1-2|4\n1-2|8\n1-2|4")
    found = prospect(reason).never
    assert (found is not None) is final
    if found is not None:
        assert str(found).startswith(f"Slurm job 3 can never start ({reason}), and is cancelled. ")
    assert prospect(reason, "RUNNING").never is None


@pytest.mark.parametrize(("nodes", "final"), [(2, False), (3, True)])
def test_a_partition_without_a_limit_has_its_nodes(slurm, nodes, final):
    slurm.update(squeue=f"main|{nodes}|1", sinfo="1-infinite|4\n1-infinite|4")
    assert (prospect("PartitionNodeLimit").never is not None) is final


def test_a_state_with_what_to_do():
    assert prospect("Resources").text == "pending (Resources)"
    assert prospect("", "RUNNING").text == "running"
    assert prospect("JobHeldUser").text == (
        "pending (JobHeldUser). It is held: scontrol release lets it start"
    )


def test_a_job_above_a_limit_for_all_jobs_never_starts(limited):
    found = prospect("AssocGrpCpuLimit")
    assert found.text == "pending (AssocGrpCpuLimit)"
    assert isinstance(found.never, errors.UsageError)
    assert str(found.never) == (
        "Slurm job 3 can never start (AssocGrpCpuLimit), and is cancelled. It asks for cpu=6, and "
        "account team allows cpu=4 for all its jobs (GrpTRES). Ask for less with slurm.cpus, "
        "cluster.workers or cluster.ps, or choose another slurm.account"
    )


@pytest.mark.parametrize(
    ("reason", "limits", "words"),
    [
        ("QOSGrpMemLimit", "mem=2G", "mem=3G, and QOS tiny allows mem=2G for all its jobs (GrpT"),
        ("QOSGrpMemLimit", "mem=3071M", "allows mem=3071M"),
        ("QOSGrpMemLimit", "mem=1T", ""),
        ("QOSMaxMemoryPerUser", "mem=2048", "(MaxTRESPerUser). Ask for less with slurm.memory_gb"),
        ("QOSMaxCpuPerUserLimit", "cpu=5", "cpu=6, and QOS tiny allows cpu=5 for all jobs of a u"),
        ("QOSMaxCpuPerUserLimit", "cpu=6", ""),
        ("QOSGrpNodeLimit", "cpu=1,node=2", "node=3, and QOS tiny allows node=2"),
        ("QOSMaxNodePerUserLimit", "node=3", ""),
        ("QOSGrpGRES", "gres/gpu=1", "gres/gpu=2, and QOS tiny allows gres/gpu=1"),
        ("QOSGrpGRES", "gres/tpu=1", ""),
        ("MaxGRESPerAccount", "gres/gpu=0", "for all jobs of an account (MaxTRESPerAccount)"),
        (
            "QOSGrpCPURunMinutesLimit",
            "cpu=8999",
            "cpu=6 for 1-01:00:00, and QOS tiny allows cpu=8999 for all its jobs, times minutes",
        ),
        ("QOSGrpCPURunMinutesLimit", "cpu=9000", ""),
        ("QOSGrpMemoryRunMinutes", "mem=1000", "Ask for less with slurm.time, slurm.memory_gb"),
        ("QOSGrpBilling", "billing=5", "billing=6, and QOS tiny allows billing=5"),
    ],
)
def test_limits_of_a_qos(limited, reason, limits, words):
    limited["show qos"] = f"tiny|DenyOnLimit|{limits}\n"
    found = prospect(reason)
    assert (found.never is not None) is bool(words)
    if words:
        assert words in str(found.never) and str(found.never).endswith("another slurm.qos")
    else:
        assert found.text == (
            f"pending ({reason}). It is a limit for all jobs of your account or QOS. Wait until "
            "others have ended, or ask for less"
        )


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("tiny||cpu=1\nwide||cpu=9\n", ""),
        ("tiny||cpu=1\nwide||node=9\n", "QOS tiny allows cpu=1"),
        ("tiny||cpu=9\nwide||cpu=2\n", "QOS wide allows cpu=2"),
        ("tiny|OverPartQOS|cpu=1\nwide||cpu=9\n", "QOS tiny allows cpu=1"),
        ("tiny|OverPartQOS|cpu=9\nwide||cpu=2\n", ""),
    ],
)
def test_the_qos_of_the_partition_comes_first(limited, shown, words):
    limited["show partition"] = "PartitionName=main QoS=wide"
    limited["show qos"] = shown
    found = prospect("QOSGrpCpuLimit").never
    assert (found is not None) is bool(words)
    assert words in str(found)
    if "wide" in words:
        assert str(found).endswith("choose another slurm.partition")


def test_the_limit_of_a_user_is_that_for_the_partition_if_there_is_one(limited):
    limited["cluster=test account=team"] = "||root|\n"
    limited["cluster=test account=small"] = "||team|\nann||small|cpu=1\nann|main|small|cpu=9\n"
    assert prospect("AssocGrpCpuLimit").never is None
    waits._find_excess.cache_clear()
    limited["cluster=test account=small"] = "||team|\nann||small|cpu=1\nann|other|small|cpu=9\n"
    assert "user ann in account small allows cpu=1" in str(prospect("AssocGrpCpuLimit").never)


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (
            "account=small",
            errors.UsageError("CLUSTER=slurm: no sacctmgr on this machine"),
            "CLUSTER=slurm: no sacctmgr on this machine",
        ),
        (
            "account=small",
            errors.RetryableError("sacctmgr: Connection refused. Run the same command again."),
            "sacctmgr: Connection refused",
        ),
        ("account=small", "ann||small|\n", "sacctmgr does not show you account small"),
        ("account=team", "||root|\n", "sacctmgr shows you no GrpTRES of cpu"),
        ("show job", JOB.format("main,other", ASKED), "it waits for several partitions"),
    ],
)
def test_a_job_is_waited_for_if_its_limit_cannot_be_read(limited, key, text, words):
    known = next(one for one in limited if one.endswith(key))
    limited[known] = text
    found = prospect("AssocGrpCpuLimit")
    assert found.never is None
    assert found.text.endswith(
        f"or ask for less. Whether it alone is above the limit is not known: {words}"
    )


def test_a_job_without_an_end_is_above_any_limit_of_minutes(limited):
    limited["show job"] = JOB.format("main", ASKED).replace("1-01:00:00", "UNLIMITED")
    limited["cluster=test account=team"] = "||root|cpu=99999\n"
    found = str(prospect("AssocGrpCPURunMinutesLimit").never)
    assert "cpu=6 for UNLIMITED, and account team allows cpu=99999" in found


def test_a_qos_that_is_not_shown(limited):
    limited["show qos"] = ""
    assert prospect("QOSGrpCpuLimit").text.endswith("sacctmgr does not show you QOS tiny")


def test_a_limit_is_not_read_at_each_look(limited):
    assert prospect("AssocGrpMemLimit").never is None
    limited.clear()
    assert prospect("AssocGrpMemLimit").never is None


def test_a_limit_is_read_once_for_an_array(limited):
    for index in range(2):
        found = waits.find_prospect(f"3_{index}", "PENDING", "AssocGrpCpuLimit").never
        assert str(found).startswith(f"Slurm job 3_{index} can never start (AssocGrpCpuLimit)")
        limited.clear()
