"""Another number of workers while a run trains: the request for it, and the record of it."""

from __future__ import annotations

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord, WorkerChange


def take(run: RunFolder) -> int | None:
    """Returns the number of workers that a run is asked for, and forgets the request; `None`
    without one, or for one that cannot be read."""
    try:
        request = run.read(run_folder.SCALE)
        if request is None:
            return None
        run.remove(run_folder.SCALE)
        return int(request["workers"])
    except (errors.PipelineError, OSError, KeyError, TypeError, ValueError):
        return None


def note(record: RunRecord, workers: int, *, step: int | None, now: float) -> None:
    """Puts another number of workers into a record: the next request is compared with it."""
    record.topology = {**record.topology, topology.WORKER: workers}
    record.scalings = [*record.scalings, WorkerChange(workers=workers, time=now, step=step)]
