"""The records of a job at a place that only trains: they are there before it is submitted."""

from __future__ import annotations

from pipeline.jobs import run_setup
from pipeline.jobs.job import Job
from pipeline.records import builds
from pipeline.runs.run_record import RunRecord


def attach_records(job: Job) -> Job:
    """Returns the job with the build that it asks for. Raises `DataError` without one, or if the
    records do not fit, and `UsageError` for features that they cannot have."""
    moves = job.config.train.on_new_data != "refuse"
    wanted = builds.find_wanted(job.storage_root, job.config, job.run, moves=moves)
    job = job.with_records(wanted)
    run_setup.check_manifest(job, quiet=True)  # `pin` says it
    return job


def pin(job: Job, record: RunRecord) -> Job:
    """Pins the run to its records, and returns the job with what follows from them."""
    contents = run_setup.check_manifest(job)
    builds.warn_of_other_inputs(job.storage_root, job.config, job.records)
    builds.pin_to(job.storage_root, job.run, job.config.name, folder=job.records)
    record.manifest = contents.sha256
    return run_setup.resolve_steps(job, contents)
