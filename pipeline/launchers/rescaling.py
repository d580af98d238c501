"""Another number of workers for a run that is a job elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import errors
from pipeline.cluster import scaling
from pipeline.jobs import job as jobs
from pipeline.runs import run_folder, run_lock, run_record
from pipeline.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from pipeline.launchers.remote import RemoteLauncher

# How long the command that follows a job waits for the one that takes its place.
_PATIENCE = 600.0  # seconds


def scale(place: RemoteLauncher, run: RunFolder, name: str, *, workers: int) -> None:
    """Gives the job `name` of a run another number of workers. Where all step together, it saves
    and ends, and another job takes its place.

    Raises `UsageError` if the job has no machines, or has ended.
    """
    state = place.look(name)
    if not state.is_running:
        raise errors.UsageError(
            f"run {run.name!r}: its {place.title(name)} is {state.word}, and cannot be scaled. Run "
            f"the command that submitted it again, with WORKERS={workers}"
        )
    if scaling.restarts_nothing(run.read_config().cluster):
        place.resize(run, name, workers)
        return
    run.write(run_folder.SCALE, {"workers": workers})
    print(f"{place.title(name)}: all processes save", flush=True)
    place.save_and_end(run, name)
    while not place.look(name).has_ended:
        place.sleep(place.poll)
    _go_on(place, run, workers)


def _go_on(place: RemoteLauncher, run: RunFolder, workers: int) -> None:
    record = run_record.read(run)
    if record is not None and record.status != "running":
        run.remove(run_folder.SCALE)
        raise errors.UsageError(f"run {run.name!r}: has ended meanwhile: {record.reason}")
    root = run_folder.storage_root(run)
    wanted = [f"cluster.workers={workers}"]
    job = place.prepare(jobs.plan(run.config_path, wanted, run=run.name, storage_root=root))
    with run_lock.hold(run):
        _, name = place.begin_job(job)
    print(f"{place.title(name)} continues it", flush=True)


def successor(place: RemoteLauncher, run: RunFolder, name: str) -> str | None:
    """Returns the job that has taken the place of `name`, which has ended; `None` if there will be
    none."""
    deadline = place.clock() + _PATIENCE
    while place.clock() < deadline:
        asked = run.read(run_folder.SCALE) is not None
        record = run_record.read(run)
        if record is None or record.status != "running" or (record.job == name and not asked):
            return None
        if record.job not in (name, None):
            return record.job
        place.sleep(place.poll)
    return None
