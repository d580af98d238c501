"""What every launcher does to a run before its processes start and after they have ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pipeline import errors, redaction, storage
from pipeline.cluster import compatibility, topology
from pipeline.config import config_file
from pipeline.jobs import display
from pipeline.jobs import job as jobs
from pipeline.jobs.job import Job
from pipeline.records import coarse, epochs, kept_plan, manifest, padded_lists
from pipeline.reports import writing
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_record import RunRecord


def open_run(job: Job) -> RunRecord:
    """Makes the run folder what the processes expect, and says what is about to happen."""
    resumes = storage.exists(job.run.config_path)
    for line in jobs.changes(job):
        print(redaction.redact(f"changed since the last start: {line}"))
    record = run_record.begin(job.config, job.run)
    # What earlier processes have reported would be mistaken for reports of these.
    stale = (run_folder.TRAINING_DONE, run_folder.RESULT, run_folder.EXCLUDED)
    for name in ("status", *stale, run_folder.STOP):
        job.run.remove(name)
    storage.write_text(job.run.config_path, config_file.dump(job.config))
    run_record.write(job.run, record)
    job.run.remove(run_folder.SCALE)  # by which `make scale` has ended the job before
    print(display.introduction(job, resumes=resumes), flush=True)
    for line in config_file.warnings(job.config):
        print(f"warning: {line}", flush=True)
    return record


def note_job(job: Job, name: str) -> None:
    """Prints that the run has a job already, and notes it: the answer to its submission may have
    been lost, or the record."""
    print(f"run {job.name} has been submitted already; following it")
    for line in jobs.changes(job):
        print(redaction.redact(f"changed since then, so not for this job: {line}"))
    record = run_record.read(job.run)
    if record is None or record.status != "running" or record.job != name:
        record = record or run_record.begin(job.config, job.run)
        record.status, record.reason, record.exit_code = "running", "training", None
        record.job = name
        run_record.write(job.run, record)


def resolve_steps(job: Job, contents: manifest.Manifest) -> Job:
    """Says how many steps the epochs of a job come to, if it has epochs; how many of them are left
    is for the chief to find out. Raises `UsageError` if a schedule does not fit into so many."""
    wanted = epochs.set_initial_length(job.config, contents)
    if job.config.train.epochs is not None:
        print(epochs.describe(job.config, contents), flush=True)
        compatibility.check(wanted)
    return dataclasses.replace(job, config=wanted)


def check_manifest(job: Job, *, quiet: bool = False) -> manifest.Manifest:
    """Returns the manifest of the job's records; warns, unless `quiet`, of coarse features, of
    lists that are mostly padding, of batches with more examples than there are records, and of
    settings without effect.

    Raises `DataError` if the records do not fit the job or there are none to train on or for eval,
    and `UsageError` if there are not the statistics that the job's features ask for."""
    found = manifest.read(job.records)
    manifest.check_schema(found, job.config.data, job.records)
    for name in ("train", "eval"):
        found.split(name)
    plan = kept_plan.plan(job.config, found)
    of_data = (*coarse.warnings(plan), *padded_lists.warnings(job.config, found))
    warnings = (*of_data, *_warn_of_batch(job, found), *_warn_of_optimizer(job))
    for line in () if quiet else warnings:
        print(f"warning: {line}", flush=True)
    return found


def _warn_of_optimizer(job: Job) -> Iterator[str]:
    optimizer = job.config.train.optimizer
    for line in optimizer.unused:
        yield f"train.optimizer.{line}, and train.optimizer is {optimizer.name}: it has no effect"


def _warn_of_batch(job: Job, contents: manifest.Manifest) -> Iterator[str]:
    train, step = contents.splits.get("train"), topology.examples_per_step(job.config)
    if train is not None and step > train.records:
        yield (
            f"train.batch_size is {job.config.train.batch_size:,}: a step takes {step:,} examples, "
            f"more than train has records ({train.records:,}), so it learns from some of them "
            "several times at once; use smaller batches"
        )


def close(
    job: Job, record: RunRecord, error: errors.PipelineError | None, *, stopped: bool
) -> None:
    """Writes how the run ended, and the report of it."""
    run_record.add_result(record, job.run)
    run_record.close(record, job.run, error, stopped=stopped)
    if record.seconds:
        writing.attempt(job.run)
