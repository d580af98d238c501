"""What a launcher is: the way to run one job at one kind of place."""

from __future__ import annotations

from typing import Protocol

from pipeline.jobs.job import Job
from pipeline.runs.run_record import RunRecord


class Launcher(Protocol):
    """Runs a job to its end, whatever it takes at its place."""

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Returns the record of the run once it is done; every process is gone by then.

        `started` is the Unix time at which the command began. Raises the `PipelineError` of
        what went wrong, after writing it to the run's record.
        """
