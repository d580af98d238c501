"""How a run is doing whose processes are a job elsewhere, for commands that only look.

Which place has the job is known by its name in the run's record. What speaks to that place is
imported only for a run that has such a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import errors, places
from pipeline.launchers import rescaling
from pipeline.runs import run_record, scale_request
from pipeline.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from pipeline.launchers.remote import RemoteLauncher


def launcher(job: str) -> RemoteLauncher:
    """Returns the launcher of the place that has a job. Raises `UsageError` if none has such."""
    found: RemoteLauncher = places.load(places.PLACES[places.find_place(job)].launcher)()
    return found


def has_ended(job: str) -> bool:
    """True if the service or scheduler of the job reports that it is over."""
    return launcher(job).has_ended(job)


def stop(run: RunFolder) -> str | None:
    """Returns what has been done to end the job of a run, or `None` if its processes are to be
    asked. Raises `UsageError` if it has ended, and its end is not recorded yet."""
    job = run_record.job_at_work(run_record.read(run))
    return None if job is None else launcher(job).stop(run, job)


def scale(run: RunFolder, workers: int, now: float) -> str | None:
    """Gives the job of a run another number of workers, and returns what it does then; `None` if
    its processes are no job. Raises `UsageError` if it cannot have so many."""
    job = run_record.job_at_work(run_record.read(run))
    if job is None:
        return None
    place = launcher(job)
    if not place.scales:
        name = places.find_place(job)
        raise errors.UsageError(
            f"run {run.name!r}: is a job on {places.PLACES[name].summary}, whose size is fixed; "
            f"make stop, then make train CLUSTER={name} with the same RUN= and "
            f"WORKERS={workers} continues"
        )
    how = scale_request.check(run, workers, now)
    rescaling.scale(place, run, job, workers=workers)
    return how


def refuse_while_going(run: RunFolder) -> None:
    """Raises `UsageError` if the processes of a run are running at another place."""
    job = run_record.job_at_work(run_record.read(run))
    if job is not None:
        launcher(job).refuse_while_going(run, job)


def describe_job(run: RunFolder) -> list[str]:
    """Returns what is known of the job of a run, in lines; none for other runs."""
    job = run_record.job_at_work(run_record.read(run))
    if job is None:
        return []
    try:
        return launcher(job).describe(job)
    except errors.UsageError as error:
        return [str(error)]


def logs_link(job: str) -> str | None:
    """Returns where all that a job's processes have put out can be looked at, if it is a page."""
    try:
        return launcher(job).logs_link(job)
    except errors.UsageError:
        return None
