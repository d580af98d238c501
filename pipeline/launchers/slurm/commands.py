"""Slurm's own programs, which speak to its controller with the user's credentials."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence

from pipeline import errors
from pipeline.launchers import program
from pipeline.launchers.slurm import advice

# How the record of a run names a job: slurm/<number>.
JOB = "slurm/"
# Variables that stand for options of Slurm's programs, or that an allocation has set for its steps:
# they would hide jobs, and count more than what a script asks for.
_OPTIONS = re.compile(r"(?:SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SCANCEL|SCONTROL|SINFO|SACCT|SACCTMGR)_")
# Those among them that name the cluster, or prove who asks.
_OF_CLUSTER = ("SLURM_CLUSTERS", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")
# What Slurm's programs print before what they have to say.
_WHO = re.compile(
    r"^(?:sbatch|srun|scontrol|squeue|scancel|sacctmgr|slurmstepd[^:]*): (?:error|fatal): "
)
# States of a job that will not run any more.
ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
# States of a job without processes that may have some later: one that was put back is COMPLETING
# until its nodes are free.
WAITING = ("PENDING", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")


def require() -> None:
    """Raises `UsageError` on a machine without Slurm's programs."""
    missing = [name for name in ("sbatch", "squeue", "scontrol") if shutil.which(name) is None]
    if missing:
        raise errors.UsageError(
            f"CLUSTER=slurm: no {', '.join(missing)} on this machine. Run the command where jobs "
            "are submitted, such as a login node"
        )
    _check_configuration()


def _check_configuration() -> None:
    """Raises `UsageError` for a file that is not there: Slurm's programs wait a minute for it."""
    path = os.environ.get("SLURM_CONF")
    if path and not os.path.exists(path):
        raise errors.UsageError(
            f"SLURM_CONF={path!r}: not found. Name the slurm.conf of the cluster, or unset it"
        )


def ping() -> None:
    """Raises `UsageError` without Slurm's programs, `RetryableError` if no controller answers."""
    require()
    ask("squeue", "--noheader", "--me", "--format=%i")


def ask(*command: str, text: str | None = None) -> str:
    """Returns what a program of Slurm puts out.

    Raises `RetryableError` if the controller or munge does not answer, and `UsageError` with
    Slurm's own words if it refuses.
    """
    _check_configuration()
    refusal = functools.partial(_explain_refusal, command[0])
    variables = drop_options(os.environ)
    return program.ask(*command, place="slurm", refusal=refusal, text=text, variables=variables)


def drop_options(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which Slurm's programs do what their command says, and no more. A
    job that is submitted with it has no variables of an allocation around it either."""
    return {
        name: value
        for name, value in variables.items()
        if name in _OF_CLUSTER or not _OPTIONS.match(name)
    }


def _explain_refusal(name: str, said: str) -> errors.PipelineError:
    words = extract_error(said) or "it gives no reason"
    outage = advice.advise_on_outage(words)
    if outage is not None:
        parts = [f"{name}: {words}", outage, program.AGAIN]
        return errors.RetryableError(". ".join(filter(None, parts)))
    fix = advice.advise_on_refusal(words)
    return errors.UsageError(f"{name}: {words}" + (f". {fix}" if fix else ""))


def extract_error(said: str) -> str:
    """Returns what programs of Slurm have said of an error, as one line."""
    lines = [_WHO.sub("", line.strip()) for line in said.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(line.rstrip(".") for line in lines))


def state(job: str) -> tuple[str, str]:
    """Returns the state of a job such as `PENDING`, and the reason that Slurm gives for it.

    One that Slurm does not know any more has ended: `("COMPLETED", "")` stands for it. Of an array
    it forgets at once what was cancelled before it started. Raises `RetryableError` if the
    controller does not answer.
    """
    try:
        said = ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r")
    except errors.UsageError as error:
        if "invalid job id" not in str(error).lower():
            raise
        return "COMPLETED", ""
    forgotten = "CANCELLED|" if "_" in job else "COMPLETED|"
    word, _, reason = (said.strip().splitlines() or [forgotten])[0].partition("|")
    return word.strip(), _extract_reason(reason)


def states(array: str) -> dict[str, tuple[str, str]]:
    """Returns the same of all jobs of an array that Slurm knows, by their numbers."""
    try:
        said = ask(
            "squeue",
            "--array",
            "--noheader",
            "--states=all",
            f"--jobs={array}",
            "--format=%i|%T|%r",
        )
    except errors.UsageError as error:
        if "invalid job id" not in str(error).lower():
            raise
        return {}
    rows = [line.strip().split("|", 2) for line in said.splitlines()]
    return {number: (word, _extract_reason(reason)) for number, word, reason in rows}


def _extract_reason(said: str) -> str:
    return "" if said.strip() == "None" else said.strip()


def exit_of(job: str) -> str:
    """Returns the exit code and signal of a job that has ended, such as `0:53`; empty if Slurm has
    forgotten them."""
    try:
        found = re.search(r" ExitCode=(\d+:\d+)", ask("scontrol", "--oneliner", "show", "job", job))
    except errors.PipelineError:
        return ""
    return found[1] if found else ""


def find_jobs_by_comment() -> dict[str, tuple[str, str]]:
    """Returns number and state of each of your jobs that have not ended, by their comments."""
    return {comment: (number, word) for number, word, comment in _list_own_jobs()}


def _list_own_jobs(*options: str) -> list[list[str]]:
    """Returns number, state and comment of each of your jobs that have not ended."""
    said = ask("squeue", *options, "--noheader", "--me", "--format=%i|%T|%k")
    rows = [line.strip().split("|", 2) for line in said.splitlines()]
    return [row for row in rows if row[1] not in ENDED]


def find_array(comment: str) -> dict[int, str]:
    """Returns the number of each of your jobs of the array with a comment that have not ended, by
    index."""
    rows = _list_own_jobs("--array")
    numbers = [number for number, _, said in rows if said == comment]
    return {int(number.rpartition("_")[2]): number for number in numbers}


def find(comment: str) -> str | None:
    """Returns the number of your job with a comment that has not ended, or `None`."""
    found = find_jobs_by_comment().get(comment)
    return None if found is None else found[0]


def submit(script: str, arguments: Sequence[str] = ()) -> str:
    """Submits a script and returns the number of its job. Variables that stand for options of
    sbatch do not count, which it prints. Raises what `ask` does."""
    ignored = sorted(name for name in os.environ if name.startswith("SBATCH_"))
    if ignored:
        print(
            f"note: {', '.join(ignored)}: not used for this job. Set the same in the slurm section "
            "of the config",
            flush=True,
        )
    return ask("sbatch", "--parsable", *arguments, text=script).strip().partition(";")[0]


def cancel(job: str) -> None:
    """Ends a job: its processes get SIGTERM first."""
    ask("scancel", job)
