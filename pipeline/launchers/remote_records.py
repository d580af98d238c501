"""The records of a job at a place that only trains: they are there before it is submitted."""

from __future__ import annotations

from pipeline.jobs import run_setup
from pipeline.jobs.job import Job
from pipeline.records import builds
from pipeline.runs import run_folder
from pipeline.runs.run_record import RunRecord


def with_records(job: Job) -> Job:
    """Returns the job with the build that it asks for. Raises `DataError` without one, or if the
    records do not fit, and `UsageError` for features that they cannot have."""
    moves = job.config.train.on_new_data != "refuse"
    wanted = builds.wanted(job.storage_root, job.config, job.run, moves=moves)
    job = job.with_records(wanted)
    run_setup.checked_manifest(job, quiet=True)  # `pin` says it
    return job


def pin(job: Job, record: RunRecord) -> Job:
    """Pins the run to its records, and returns the job with what follows from them."""
    contents = run_setup.checked_manifest(job)
    current = builds.current(run_folder.records_folder(job.storage_root, job.config.name))
    why = builds.compare_inputs(job.storage_root, job.config)
    if why and job.records == current:
        # No refusal: the raw data may lie elsewhere on the machine that made the records.
        print(
            f"warning: {job.records!r} may be of another config called {job.config.name!r}: {why}. "
            "If so, run make preprocess, and give one another name: or STORAGE=",
            flush=True,
        )
    builds.pin_to(job.storage_root, job.run, job.config.name, folder=job.records)
    record.manifest = contents.sha256
    return run_setup.resolved(job, contents)
