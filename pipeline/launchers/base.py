"""What a place must provide, and how commands get it.

A place is a class in `pipeline/launchers/<name>/launcher.py`, which its row in `pipeline.places`
names. Where this project looks after the processes itself, as on this machine, it is a `Launcher`.
Where a scheduler or a service takes whole jobs, it is a `RemoteLauncher` of
`pipeline.launchers.remote`, which submits, follows, finds, stops and reports jobs: the place adds
how to talk to the service.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator

from pipeline import errors, places
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import checks
from pipeline.runs.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class Shown:
    """What DRY_RUN=1 prints. `document` is for a program, whole; `notes` are for people."""

    document: str
    notes: str


class Launcher(abc.ABC):
    """Runs jobs at one place. It is made without arguments."""

    @abc.abstractmethod
    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs a job to its end and returns the record of the run; every process is gone by then.

        `started` is the Unix time at which the command began. Raises the `PipelineError` of
        what went wrong, after writing it to the run's record.
        """

    def is_array(self, job: Job) -> bool:
        """True if a job is several runs, which are submitted together: then it is `run_array` that
        runs it. By default no job is."""
        return False

    def run_array(self, job: Job, *, started: float) -> None:
        """Runs all runs of an array, and says how each has ended. Raises a `PipelineError` if not
        all of them ended well."""
        raise NotImplementedError

    def show(self, job: Job) -> Shown:
        """Returns the job as it would be sent. Needs no credentials, and asks no service.

        Raises `UsageError` for a config that the place cannot run, or a place that sends nothing.
        """
        raise errors.UsageError(
            f"DRY_RUN=1: shows jobs for {places.format_others(places.list_training())}"
        )

    @abc.abstractmethod
    def require(self, job: Job) -> None:
        """Asks the place whether it would take a job now. Raises the `PipelineError` of what keeps
        it from that, before anything is written."""

    def room(self, job: Job) -> Room | None:
        """Returns the memory of the processes that hold the variables of a job, which are those of
        `table_memory.holder`; `None` if it is not known."""
        return None

    def checks(self, storage_root: str) -> Iterator[checks.Finding]:
        """Yields what `make doctor CLUSTER=` finds on this machine, quick checks first."""
        yield from checks.check_installation(storage_root)


def choose(place: str) -> Launcher:
    """Returns the launcher of a place, importing only what that place needs."""
    made = places.load(places.PLACES[place].launcher)()
    assert isinstance(made, Launcher), place
    return made
