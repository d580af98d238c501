"""What to do about a refusal of Slurm, and about the reason why a job waits. Pure.

Refusals are in the words of Slurm's errors (`slurm_strerror`); what reasons mean is on
https://slurm.schedmd.com/job_reason_codes.html.
"""

from __future__ import annotations

import dataclasses
import re

_LESS = (
    "Ask for less with slurm.time, slurm.nodes, slurm.cpus, slurm.memory_gb or slurm.gpus, or "
    "choose another slurm.partition"
)
_TIME = "Ask for less with slurm.time, or choose another slurm.partition"
_NODES = (
    "Ask for less with slurm.nodes, slurm.cpus, slurm.memory_gb or slurm.gpus, or choose another "
    "slurm.partition"
)
_ACCOUNT = (
    "Choose an account and partition that you may use, with slurm.account and slurm.partition"
)
_QOS = "Choose a QOS that you may use, with slurm.qos, or ask for less"
_MUNGE = "Ask the cluster's administrator: munge has to run here, with the key of the cluster"
# By words of an error, in lower case, that may pass: the controller or munge does not answer, or
# takes no jobs now. Of a connection that the controller closes it gives no reason.
_OUTAGES = {
    "zero bytes were transmitted": "The controller is busy, or munge has another key or clock here "
    "than there",
    "munge": _MUNGE,
    "authentication": _MUNGE,
    "unable to contact slurm controller": "",
    "socket timed out": "",
    "connection timed out": "",
    "connection refused": "",
    "communication connection failure": "",
    "message receive failure": "",
    "slurm backup controller": "",
    "temporarily un": "",
}
# By words that a refusal has, in lower case; the first that fits.
_REFUSALS = {
    "configuration source": "This machine is of no cluster. Run the command where jobs are "
    "submitted, such as a login node, or name the cluster's slurm.conf in SLURM_CONF",
    "accounting/qos policy": "It is a limit of your account or QOS, which sacctmgr show "
    "association and sacctmgr show qos list. Ask for less, or wait until other jobs of yours have "
    "ended",
    "job array": "Give indexes in slurm.array below the MaxArraySize of scontrol show config",
    "partition specified": "Choose one that sinfo shows, with slurm.partition",
    "partition not available": "The partition takes no jobs now. Ask the cluster's administrator "
    "when it will, or choose another slurm.partition",
    "node name": "Name nodes that sinfo --Node shows, with --nodelist or "
    "--exclude in slurm.options",
    "node not available": "Nodes that it names are down, drained or reserved, as sinfo --Node "
    "shows. Ask the cluster's administrator when they are back, or name others in slurm.options",
    "group not permitted": "Choose a partition that your group may use, with slurm.partition, or "
    "ask the cluster's administrator",
    "permission denied": "Ask the cluster's administrator whether you may submit jobs here, or "
    "choose another slurm.partition",
    "reservation": "Name one that scontrol show reservation lists and you may use, with "
    "--reservation in slurm.options",
    "license": "Name some that scontrol show licenses lists, with --licenses in slurm.options",
    "gres": "Ask for what sinfo --format='%P %G' shows, with slurm.gpus, or choose another "
    "slurm.partition",
    "feature specification": "Name features that sinfo --format='%P %f' shows, with "
    "slurm.constraint",
    "dependency": "Name jobs that there are, with --dependency in slurm.options",
    "memory": "Ask for less with slurm.memory_gb, or choose another slurm.partition",
    "processors": "Ask for less with slurm.cpus, or for more slurm.nodes, or choose another "
    "slurm.partition",
    "qos": _QOS,
    "account": _ACCOUNT,
    "time limit": _TIME,
    "node": _NODES,
    "limit": "Ask for less, or wait until other jobs of yours have ended",
}


def advise_on_outage(words: str) -> str | None:
    """Returns what to do if an error that may pass does not, or an empty string; `None` for other
    errors."""
    return next((fix for key, fix in _OUTAGES.items() if key in words.lower()), None)


def advise_on_refusal(words: str) -> str:
    """Returns what to do about a refusal; empty if that is not known."""
    return next((fix for key, fix in _REFUSALS.items() if key in words.lower()), "")


@dataclasses.dataclass(frozen=True)
class Wait:
    """What to do about a job that waits; `is_final` if it never runs under the cluster's limits."""

    advice: str
    is_final: bool = False


# Patterns of what a reason begins with; the first that fits. Others are usual, as Resources.
_REASONS = {
    "PartitionTimeLimit": Wait(_TIME, is_final=True),
    "PartitionNodeLimit": Wait(_NODES, is_final=True),
    "PartitionDown|PartitionInactive": Wait(
        "The partition takes no jobs now. Ask the cluster's administrator when it will, or choose "
        "another slurm.partition"
    ),
    "PartitionConfig": Wait(_LESS, is_final=True),
    r"(?:Assoc|QOS)Max\w+Per(?:Job(?:Limit)?|Node)|MaxMemPer(?:Limit|CPU)": Wait(
        _LESS, is_final=True
    ),
    r"QOSMin\w+": Wait("Ask for more, or choose another slurm.qos", is_final=True),
    "InvalidAccount|AccountNotAllowed|Job's account": Wait(_ACCOUNT, is_final=True),
    "InvalidQOS|QOSNotAllowed|Job's QOS": Wait(_QOS, is_final=True),
    "BadConstraints": Wait(
        "No node has what is asked for. Change slurm.constraint or slurm.options", is_final=True
    ),
    "DependencyNeverSatisfied": Wait("Change --dependency in slurm.options", is_final=True),
    "ReservationDeleted": Wait("Change --reservation in slurm.options", is_final=True),
    r"(?:Assoc|QOS)\w+|Max\w+PerAccount": Wait(
        "It is a limit for all jobs of your account or QOS. Wait until others have ended, or ask "
        "for less"
    ),
    "ReqNodeNotAvail": Wait("Nodes that it needs are down, drained or reserved: sinfo shows them"),
    "JobArrayTaskLimit": Wait("As many of the array run as slurm.array allows"),
    "JobHeldUser|JobHoldMaxRequeue|launch|job requeued in held state": Wait(
        "It is held: scontrol release lets it start"
    ),
    "JobHeldAdmin": Wait("It is held by the cluster's administrator: ask them"),
}


# What asks for fewer processors in the advice on a job of several processes.
_PROCESSORS = (
    "slurm.nodes, slurm.cpus",
    "slurm.cpus, cluster.workers or cluster.ps",
    "slurm.cpus, or for more slurm.nodes",
)


def adapt_to_one_task(text: str, key: str) -> str:
    """Returns advice for a job of one task on one node, whose processors are chosen with `key`."""
    for keys in _PROCESSORS:
        text = text.replace(keys, key)
    return text


def advise_on_wait(reason: str) -> Wait | None:
    """Returns what to do about a reason as squeue gives it, such as `ReqNodeNotAvail, May be
    reserved for other job`; `None` if there is nothing to do but to wait."""
    found = (wait for key, wait in _REASONS.items() if re.match(rf"(?:{key})(?!\w)", reason))
    return next(found, None)
