"""How a run is doing whose processes are a Slurm job, for commands that only look."""

from __future__ import annotations

from pipeline import errors
from pipeline.launchers.slurm import commands
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder

# How the record of a run names a job of Slurm: slurm/<number>.
JOB = "slurm/"
_SETTLE = "The command that submitted it, once more, takes note of the end"


def number(job: str) -> str:
    """Returns the number of a job by the name that it has in a run's record."""
    return job.removeprefix(JOB)


def has_ended(job: str) -> bool:
    """True if Slurm says that the job is over."""
    try:
        return commands.state(number(job))[0] in commands.ENDED
    except errors.PipelineError:
        return False


def stop(run: RunFolder) -> str | None:
    """Returns what has been done to end a job, or `None` if its processes are to be asked. A job
    that waits for its first nodes has nothing to save: it is cancelled.

    Raises `UsageError` if it has ended, and its end is not recorded yet.
    """
    job = run_record.job_at_work(run_record.read(run))
    if job is None:
        return None
    state, _ = commands.state(number(job))
    if state in commands.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: nothing to stop, its Slurm job {number(job)} is "
            f"{state.lower()}. {_SETTLE}"
        )
    if state not in commands.WAITING:
        return None
    commands.cancel(number(job))
    return f"its Slurm job {number(job)} had no nodes, and is cancelled"


def refuse_while_going(run: RunFolder) -> None:
    """Raises `UsageError` if the job of a run has not ended."""
    job = run_record.job_at_work(run_record.read(run))
    if job is not None and commands.state(number(job))[0] not in commands.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: is Slurm job {number(job)}. Follow it with CLUSTER=slurm, end it "
            "with make stop, or use another RUN="
        )


def described(run: RunFolder) -> list[str]:
    """Returns what Slurm says of the job of a run, in lines; none for other runs."""
    job = run_record.job_at_work(run_record.read(run))
    if job is None:
        return []
    try:
        state, reason = commands.state(number(job))
    except errors.PipelineError as error:
        return [f"its Slurm job {number(job)} cannot be asked about: {error}"]
    lines = [f"Slurm job {number(job)}: {state.lower()}" + (f" ({reason})" if reason else "")]
    return [*lines, _SETTLE] if state in commands.ENDED else lines
