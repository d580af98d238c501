"""What to do about what Slurm says."""

from __future__ import annotations

import pytest

from pipeline.launchers.slurm import advice


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("invalid partition specified: gres", "Choose one that sinfo shows"),
        ("Invalid account or account/partition combination specified", "Choose an account"),
        ("Requested node configuration is not available", "Ask for less with slurm.nodes"),
        ("Node count specification invalid", "Ask for less with slurm.nodes"),
        ("Invalid node name specified", "Name nodes that sinfo --Node shows, with --nodelist or"),
        (
            "Required partition not available (inactive or drain)",
            "Ask the cluster's administrator when it will, or choose another slurm.partition",
        ),
        (
            "Required node not available (down, drained or reserved)",
            "Ask the cluster's administrator when they are back, or name others",
        ),
        ("Requested time limit is invalid (missing or exceeds some limit)", "slurm.time"),
        ("More processors requested than permitted", "Ask for less with slurm.cpus"),
        ("Requested more tasks than available processors", "Ask for less with slurm.cpus"),
        ("Invalid generic resource (gres) specification", "slurm.gpus"),
        ("Invalid feature specification", "slurm.constraint"),
        ("Requested reservation is invalid", "scontrol show reservation"),
        ("Invalid license specification", "scontrol show licenses"),
        ("Access/permission denied", "Ask the cluster's administrator whether you may submit"),
        ("User's group not permitted to use this partition", "that your group may use"),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "It is a limit of your account or QOS",
        ),
        ("Invalid qos specification", "Choose a QOS"),
        ("Memory required by task is not available", "slurm.memory_gb"),
        ("Job dependency problem", "--dependency"),
    ],
)
def test_refusals(said, fix):
    assert fix in advice.advise_on_refusal(f"Batch job submission failed: {said}")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("auth_p_pack: Munge encode failed: Failed to access the socket", "munge has to run here"),
        ("Munge decode failed: Expired credential", "munge has to run here"),
        ("Invalid authentication credential", "munge has to run here"),
        ("Zero Bytes were transmitted or received", "The controller is busy, or munge has"),
        ("Unable to contact slurm controller (connect failure)", ""),
    ],
)
def test_outages(said, fix):
    found = advice.advise_on_outage(f"slurm_load_jobs error: {said}")
    assert found is not None and fix in found and bool(found) is bool(fix)


def test_a_refusal_is_no_outage():
    assert advice.advise_on_outage("Invalid partition name specified") is None


def test_a_refusal_that_is_unknown():
    assert advice.advise_on_refusal("Requested operation is presently disabled") == ""


@pytest.mark.parametrize(
    ("reason", "words", "final"),
    [
        ("PartitionTimeLimit", "slurm.time", True),
        ("PartitionNodeLimit", "slurm.nodes", True),
        ("AssocMaxWallDurationPerJobLimit", "Ask for less", True),
        ("AssocMaxCpuPerNode", "Ask for less", True),
        ("QOSMaxGRESPerJob", "Ask for less", True),
        ("MaxMemPerLimit", "Ask for less", True),
        ("QOSMinGRES", "Ask for more", True),
        ("InvalidAccount", "slurm.account", True),
        ("PartitionConfig", "slurm.cpus", True),
        ("Job's account not permitted to use this partition (x allows y)", "slurm.account", True),
        ("Job's QOS not permitted to use this partition (x allows y)", "slurm.qos", True),
        ("AccountNotAllowed", "slurm.account", True),
        ("InvalidQOS", "slurm.qos", True),
        ("BadConstraints", "slurm.constraint", True),
        ("DependencyNeverSatisfied", "--dependency", True),
        ("ReservationDeleted", "--reservation", True),
        ("AssocGrpCpuLimit", "for all jobs of your account", False),
        ("AssocMaxJobsLimit", "for all jobs of your account", False),
        ("QOSMaxCpuPerUserLimit", "for all jobs of your account", False),
        ("QOSMaxSubmitJobPerUserLimit", "for all jobs of your account", False),
        ("MaxMemoryPerAccount", "for all jobs of your account", False),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "sinfo shows them", False),
        ("PartitionDown", "takes no jobs now. Ask the cluster's administrator", False),
        ("PartitionInactive", "choose another slurm.partition", False),
        ("JobHeldAdmin", "administrator", False),
        ("launch failed requeued held", "scontrol release", False),
        ("job requeued in held state", "scontrol release", False),
    ],
)
def test_reasons(reason, words, final):
    found = advice.advise_on_wait(reason)
    assert found is not None and words in found.advice and found.is_final is final


@pytest.mark.parametrize("reason", ["", "Resources", "Priority", "BeginTime", "Dependency"])
def test_reasons_that_pass(reason):
    assert advice.advise_on_wait(reason) is None
