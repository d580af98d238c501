"""Why a job waits: what to do about it, and whether it waits for ever.

A limit for all jobs of an account or QOS is the reason both of a job that starts once others have
ended and of one that alone is larger, which Slurm never starts. `sacctmgr` shows the limit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import time
from collections.abc import Iterator, Mapping

from pipeline import errors
from pipeline.launchers import program
from pipeline.launchers.slurm import advice, commands

# Reasons that Slurm has for what is too much, and for what is down, too.
_OF_SIZE = ("PartitionNodeLimit", "PartitionConfig")
# Seconds until a limit is read again: the cluster's administrator may change it.
_READ_AGAIN = 300.0

_CPUS = "slurm.cpus, cluster.workers or cluster.ps"
_MEMORY = "slurm.memory_gb or slurm.nodes"
# By a word of the reason: what the trackable resource (TRES) is called, or its name begins with,
# and what asks for less of it.
_RESOURCES = {
    "Cpu": ("cpu", _CPUS),
    "CPU": ("cpu", _CPUS),
    "Mem": ("mem", _MEMORY),
    "Memory": ("mem", _MEMORY),
    "Node": ("node", "slurm.nodes"),
    "GRES": ("gres/", "slurm.gpus, cluster.workers or cluster.ps"),
    "Billing": ("billing", f"slurm.memory_gb, slurm.gpus, {_CPUS}"),
}
_SHARED = re.compile(
    rf"(?:(?P<of>Assoc|QOS)Grp|(?:QOS)?Max)(?P<what>{'|'.join(_RESOURCES)})"
    r"(?:Per(?P<each>User|Account)|(?P<minutes>RunMinutes))?(?:Limit)?"
)
# By whose jobs are counted together, or that their minutes are: the column of sacctmgr, its long
# name, and what is counted.
_COLUMNS = {
    None: ("GrpTRES", "GrpTRES", "all its jobs"),
    "User": ("MaxTRESPU", "MaxTRESPerUser", "all jobs of a user"),
    "Account": ("MaxTRESPA", "MaxTRESPerAccount", "all jobs of an account"),
    "RunMinutes": ("GrpTRESRunMins", "GrpTRESRunMins", "all its jobs, times minutes"),
}
_FIELD = re.compile(r"(?:^| )(UserId|Account|Partition|QOS|QoS|TRES|ReqTRES|TimeLimit)=(\S*)")
# In MB, as a number without a unit is.
_UNITS = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


@dataclasses.dataclass(frozen=True)
class Prospect:
    """The state of a job as a line, and the reason why it never starts, if it does not."""

    text: str
    never: errors.UsageError | None = None


def find_prospect(job: str, word: str, reason: str) -> Prospect:
    """Returns what becomes of a job in a state, for the reason that squeue gives.

    Raises `RetryableError` if the controller does not answer.
    """
    text = word.lower() + (f" ({reason})" if reason else "")
    wait = advice.advise_on_wait(reason) if word in commands.WAITING else None
    if wait is None:
        return Prospect(text)
    # All jobs of an array, <number>_<index>, ask for the same.
    excess = _find_excess(job.partition("_")[0], reason, int(time.monotonic() // _READ_AGAIN))
    if excess.text:
        return Prospect(text, _build_never_error(job, reason, excess.text))
    text = f"{text}. {wait.advice}"
    if excess.unknown:
        text = f"{text}. Whether it alone is above the limit is not known: {excess.unknown}"
    if wait.is_final and _is_confirmed(job, reason):
        return Prospect(text, _build_never_error(job, reason, wait.advice))
    return Prospect(text)


def _build_never_error(job: str, reason: str, why: str) -> errors.UsageError:
    return errors.UsageError(f"Slurm job {job} can never start ({reason}), and is cancelled. {why}")


def _is_confirmed(job: str, reason: str) -> bool:
    """False if the job may run in another of its partitions, or waits for nodes that are down, for
    which Slurm has the same words as for more than there are."""
    said = commands.ask("squeue", "--noheader", f"--jobs={job}", "--format=%P|%D|%c").strip()
    if not said or "," in said:
        return False
    if not reason.startswith(_OF_SIZE):
        return True
    partition, nodes, cpus = said.split("|")
    rows = commands.ask(
        "sinfo", "--noheader", "--Node", f"--partition={partition}", "--format=%s|%c"
    )
    sizes, each = zip(*(row.split("|") for row in rows.split()), strict=True)
    least, _, most = sizes[0].partition("-")  # such as 1-2, or 1-infinite
    highest = min(int(most), len(sizes)) if most.isdigit() else len(sizes)
    return not int(least) <= int(nodes) <= highest or int(cpus) > max(map(int, each))


@dataclasses.dataclass(frozen=True)
class _Excess:
    """By what a job alone is above a limit for all jobs, or why that is `unknown`."""

    text: str = ""
    unknown: str = ""


@dataclasses.dataclass(frozen=True)
class _Limit:
    """What one account, user or QOS allows, by resource, and the key that chooses another."""

    owner: str
    allowed: Mapping[str, str]
    key: str


@functools.lru_cache(maxsize=8)
def _find_excess(job: str, reason: str, period: int) -> _Excess:
    """Compares a job with the limit that is its reason to wait, once in a period."""
    shared = _SHARED.fullmatch(reason)
    if shared is None:
        return _Excess()
    try:
        return _compare(_read_fields("job", job), shared)
    except errors.PipelineError as error:
        return _Excess(unknown=str(error).removesuffix(f". {program.AGAIN}"))


def _compare(job: Mapping[str, str], shared: re.Match[str]) -> _Excess:
    if "," in job["Partition"]:
        return _Excess(unknown="it waits for several partitions")
    resource, fix = _RESOURCES[shared["what"]]
    column, name, whose = _COLUMNS[shared["each"] or shared["minutes"]]
    asked = _parse_resources(job.get("ReqTRES") or job.get("TRES", ""))
    minutes, length = 1.0, ""
    if shared["minutes"]:
        minutes, length = _parse_minutes(job["TimeLimit"]), f" for {job['TimeLimit']}"
        fix = f"slurm.time, {fix}"
    is_shown = False
    for limit in (_list_account_limits if shared["of"] == "Assoc" else _list_qos_limits)(
        job, column
    ):
        for tres, most in limit.allowed.items():
            if not tres.startswith(resource):
                continue
            is_shown = True
            if minutes * _parse_amount(asked.get(tres, "0")) > _parse_amount(most):
                return _Excess(
                    f"It asks for {tres}={asked[tres]}{length}, and {limit.owner} allows "
                    f"{tres}={most} for {whose} ({name}). Ask for less with {fix}, or choose "
                    f"another {limit.key}"
                )
    if is_shown:
        return _Excess()
    return _Excess(unknown=f"sacctmgr shows you no {name} of {resource.rstrip('/')}")


def _read_fields(kind: str, name: str) -> dict[str, str]:
    """Returns what scontrol shows of a job or a partition; of fields of one name the first."""
    said = commands.ask("scontrol", "--oneliner", "show", kind, name)
    return dict(reversed(_FIELD.findall(said)))


def _list_account_limits(job: Mapping[str, str], column: str) -> Iterator[_Limit]:
    """Yields the limits of a job's user, of the account, and of those above it. Raises `UsageError`
    if one is not shown."""
    shown = commands.ask("scontrol", "show", "config")
    cluster = re.search(r"^ClusterName\s*= (\S+)", shown, re.M)
    user, account = job["UserId"].partition("(")[0], job["Account"]
    while account:
        rows = _read_rows(
            "association",
            *([f"cluster={cluster[1]}"] if cluster else []),
            f"account={account}",
            columns=("User", "Partition", "ParentName", column),
        )
        own = [row for row in rows if row[0] == user]
        of_partition = [row for row in own if row[1] == job["Partition"]]
        for row in of_partition or [row for row in own if not row[1]]:
            yield _Limit(
                f"user {user} in account {account}", _parse_resources(row[3]), "slurm.account"
            )
        above = next((row for row in rows if not row[0]), None)
        if above is None:
            raise errors.UsageError(f"sacctmgr does not show you account {account}")
        yield _Limit(f"account {account}", _parse_resources(above[3]), "slurm.account")
        account = above[2]


def _list_qos_limits(job: Mapping[str, str], column: str) -> Iterator[_Limit]:
    """Yields the limits of the QOS of a job's partition, and those of its own for what is not
    limited by that; the other way round with `OverPartQOS`. Raises `UsageError` if one is not
    shown."""
    own, of_partition = job["QOS"], _read_fields("partition", job["Partition"]).get("QoS", "N/A")
    names = [own] if of_partition == "N/A" else [of_partition, own]
    rows = _read_rows("qos", f"name={','.join(names)}", columns=("Name", "Flags", column))
    shown = {name: (flags, _parse_resources(limits)) for name, flags, limits in rows}
    for name in names:
        if name not in shown:
            raise errors.UsageError(f"sacctmgr does not show you QOS {name}")
    if "OverPartQOS" in shown[own][0]:
        names.reverse()
    limited: set[str] = set()
    for name in names:
        allowed = {tres: most for tres, most in shown[name][1].items() if tres not in limited}
        yield _Limit(f"QOS {name}", allowed, "slurm.qos" if name == own else "slurm.partition")
        limited |= set(allowed)


def _read_rows(kind: str, *which: str, columns: tuple[str, ...]) -> list[list[str]]:
    """Returns rows of a table of sacctmgr."""
    said = commands.ask(
        "sacctmgr", "--noheader", "--parsable2", "show", kind, *which, f"format={','.join(columns)}"
    )
    return [line.split("|") for line in said.splitlines() if line.count("|") == len(columns) - 1]


def _parse_resources(text: str) -> dict[str, str]:
    """Returns amounts by resource, of a text such as `cpu=6,mem=3G,gres/gpu=2`."""
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {name: amount for name, _, amount in pairs if re.match(r"\d", amount)}


def _parse_amount(text: str) -> float:
    number = text.rstrip("KMGTP")
    return float(number) * _UNITS[text[len(number) :]]


def _parse_minutes(text: str) -> float:
    """Returns a time limit such as `1-12:00:00` in minutes."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return math.inf  # UNLIMITED
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes + seconds / 60
