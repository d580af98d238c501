"""The run's own job and its workers: places for those that may join, and requests for others."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator

from pipeline import errors
from pipeline.cluster import scaling, topology
from pipeline.launchers.slurm import joined, steps
from pipeline.launchers.slurm.relay import Relay
from pipeline.runs import run_folder, run_record, scalings
from pipeline.runs.run_record import RunRecord


class WorkerSlots:
    """Keeps the places of workers, whichever worker has one at the moment."""

    def __init__(self, allocation: steps.Allocation, record: RunRecord) -> None:
        self._allocation, self._record = allocation, record
        self._run = allocation.run

    @property
    def names(self) -> list[str]:
        """All workers there may be that are no tasks of the run's own job."""
        tasks = self._allocation.counts.get(topology.WORKER, 0)
        numbers = range(tasks, tasks + self._allocation.places)
        return [f"{topology.WORKER}-{number}" for number in numbers]

    @contextlib.contextmanager
    def open(self, first: int) -> Iterator[None]:
        """Passes on connections to those that join, during a step whose ports begin with `first`.

        Raises `RetryableError` for a port that was taken meanwhile.
        """
        with contextlib.ExitStack() as stack:
            ports = self._allocation.ports_of_places(first)
            for port, name in zip(ports, self.names, strict=True):
                number = int(name.rpartition("-")[2])
                try:
                    relay = Relay(port, functools.partial(joined.place_of, self._run, number))
                except OSError as error:
                    raise errors.RetryableError(f"port {port}: {error.strerror}") from None
                stack.callback(relay.close)
            yield

    def look(self) -> None:
        """Takes in a request for another number of workers; those that it is about look at the
        record. Where all step together it is for the job that comes after this one."""
        is_late = self._run.read(run_folder.TRAINING_DONE) is not None
        if is_late or not scaling.restarts_nothing(self._run.read_config().cluster):
            return
        workers = scalings.take(self._run)
        before = self._record.topology.get(topology.WORKER, 0)
        if workers is None or workers == before:
            return
        print(f"{workers} workers from now on, {before} before", flush=True)
        steps_made = [status.step or 0 for status in run_folder.read_statuses(self._run).values()]
        scalings.note(self._record, workers, step=max(steps_made, default=None), now=time.time())
        run_record.write(self._run, self._record)
