"""How a run is doing whose processes are a job elsewhere, for commands that only look.

Nobody has to follow the job: that it has ended may be known to the service or scheduler alone. What
speaks to it is imported only for a run that has such a job.
"""

from __future__ import annotations

from types import ModuleType

from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder

_SLURM = "slurm/"


def has_ended(job: str) -> bool:
    """True if the service or scheduler of the job reports that it is over."""
    return bool(_of(job).has_ended(job))


def stop(run: RunFolder) -> str | None:
    """Returns what has been done to end the job of a run, or `None` if its processes are to be
    asked. Raises `UsageError` if it has ended, and its end is not recorded yet."""
    job = run_record.job_at_work(run_record.read(run))
    return None if job is None else _of(job).stop(run)


def refuse_while_going(run: RunFolder) -> None:
    """Raises `UsageError` if the processes of a run are at work elsewhere."""
    job = run_record.job_at_work(run_record.read(run))
    if job is not None:
        _of(job).refuse_while_going(run)


def described(run: RunFolder) -> list[str]:
    """Returns what is known of the job of a run, in lines; none for other runs."""
    job = run_record.job_at_work(run_record.read(run))
    return [] if job is None else list(_of(job).described(run))


def logs_link(job: str) -> str | None:
    """Returns where all that a job's processes have put out can be looked at, if it is a page."""
    return None if job.startswith(_SLURM) else str(_of(job).logs_link(job))


def _of(job: str) -> ModuleType:
    if job.startswith(_SLURM):
        from pipeline.launchers.slurm import job_status as of_slurm

        return of_slurm
    from pipeline.launchers.vertex import job_status as of_vertex

    return of_vertex
