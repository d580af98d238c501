"""Runs a job on Vertex AI: submits it, follows it to its end, finds it again when asked twice.

The processes are those of `trainer.task` in the image of the `Dockerfile`; what they say of
themselves is read from the run folder, as anywhere.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import errors, redaction
from pipeline.console import interrupts
from pipeline.jobs import display, run_setup
from pipeline.jobs import job as jobs
from pipeline.jobs.job import Job
from pipeline.launchers.vertex import job_spec, job_status, service_client
from pipeline.launchers.vertex.service_client import ENDED, Service
from pipeline.records import builds, manifest
from pipeline.runs import fatal, run_folder, run_lock, run_record
from pipeline.runs.run_record import RunRecord
from pipeline.storage import gcs_preflight, google_api

_POLL = 15.0  # seconds
# So many requests in a row may fail before it is given up to follow: the job itself goes on.
_MISSED = 20
# Canonical codes of what a job has failed with: RESOURCE_EXHAUSTED; and of what its user can mend,
# INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED and FAILED_PRECONDITION.
_QUOTA, _OF_USER = 8, (3, 5, 7, 9)


@dataclasses.dataclass(frozen=True)
class GcpLauncher:
    """A launcher for Vertex AI. The fields are what tests put others in place of."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    poll: float = _POLL
    wants_to_cancel: Callable[[str], bool] = interrupts.wants_to_cancel

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs `job` as `base.Launcher` says. Ctrl-C leaves the job running, or cancels it."""
        gcp = job.config.gcp
        gcp.check()
        _check_places(job)
        job = _with_records(job)
        contents = run_setup.checked_manifest(job)
        service = Service(str(gcp.project), str(gcp.region))
        with run_lock.held(job.run):
            record = run_record.read(job.run)
            name = service.find(job_spec.label(job.name), job.run.path) or job_status.going(record)
            if name is None:
                job, record, name = _submitted(job, contents, service)
            else:
                record = _found(job, record, name)
        print(f"job      {service_client.link(name)}", flush=True)
        try:
            # If it cannot be followed any more, nothing is noted: the job goes on.
            ended = self._follow(job, service_client.of(name), name)
        except KeyboardInterrupt:
            if self.wants_to_cancel(f"the job of run {job.name}"):
                service_client.of(name).cancel(name)
                raise _cancelled(job, record) from None
            raise errors.RetryableError(
                f"the job of run {job.name!r} goes on without us. The same command follows it "
                "again; make status, make logs and make stop work on it"
            ) from None
        try:
            _check_end(job, name, ended)
        except errors.PipelineError as error:
            run_setup.close(job, record, error, stopped=False)
            raise
        record.reason = run_record.reason_of_end(job.run)
        record.seconds["total"] = round(self.clock() - started, 3)
        run_setup.close(job, record, None, stopped=False)
        return record

    def _follow(self, job: Job, service: Service, name: str) -> dict[str, Any]:
        """Returns the job when it has ended. Raises the `PipelineError` of why it cannot be
        followed any more."""
        before = ""
        with display.Display(job.config.train.steps) as shown:
            while True:
                found = self._look(service, name)
                state = str(found.get("state", "JOB_STATE_UNSPECIFIED"))
                if state != before:
                    shown.say(f"Vertex AI: {service_client.word(state)}")
                before = state
                shown.show(run_folder.read_statuses(job.run))
                if state in ENDED:
                    return found
                self.sleep(self.poll)

    def _look(self, service: Service, name: str) -> dict[str, Any]:
        """Returns the job; requests may fail, though not many in a row."""
        for _ in range(_MISSED):
            try:
                return service.get(name)
            except errors.RetryableError:
                self.sleep(self.poll)
        return service.get(name)


def _submitted(
    job: Job, contents: manifest.Manifest, service: Service
) -> tuple[Job, RunRecord, str]:
    """Prepares the run folder and submits the job; returns both, and the name of what runs."""
    job_status.refuse_while_going(job.run)
    record = run_setup.open_run(job)
    try:
        job.run.remove(fatal.MARKER)
        submission = secrets.token_hex(8)
        fatal.begin(job.run, submission)
        builds.pin_to(job.storage_root, job.run, job.config.name, job.records)
        record.manifest = contents.sha256
        job = run_setup.resolved(job, contents)
        name = service.create(job_spec.render(job, submission))
    except errors.PipelineError as error:
        run_setup.close(job, record, error, stopped=False)
        raise
    record.job = name
    run_record.write(job.run, record)
    return job, record, name


def _with_records(job: Job) -> Job:
    """Returns the job with the build that it asks for."""
    moves = job.config.train.on_new_data != "refuse"
    return job.with_records(builds.wanted(job.storage_root, job.config, job.run, moves=moves))


def _found(job: Job, record: RunRecord | None, name: str) -> RunRecord:
    """Returns the record of a run whose job is there, and may be missing in it: the answer to its
    submission was lost, or the record was."""
    print(f"run {job.name} has been submitted already; following it")
    for line in jobs.changes(job):
        print(redaction.redact(f"changed since then, so not for this job: {line}"))
    if record is None or record.status != "running" or record.job != name:
        record = record or run_record.begin(job.config, job.run)
        record.status, record.reason, record.exit_code = "running", "training", None
        record.job = name
        run_record.write(job.run, record)
    return record


def _cancelled(job: Job, record: RunRecord) -> errors.PipelineError:
    error = errors.RetryableError(
        f"the job of run {job.name!r} is cancelled. The same command goes on from its last "
        "checkpoint"
    )
    run_setup.close(job, record, error, stopped=True)
    return error


def _check_places(job: Job) -> None:
    """Raises `UsageError` for a run that the machines would not find, or find far away."""
    job_spec.check_storage(job)
    gcs_preflight.check_region(job.storage_root, job.config.gcp.region)


def _check_end(job: Job, name: str, ended: Mapping[str, Any]) -> None:
    """Raises the `PipelineError` of what a job has failed with."""
    state = str(ended["state"])
    if state != "JOB_STATE_SUCCEEDED":
        raise _failure(job, state, ended.get("error", {}))
    if job.run.read(run_folder.RESULT) is None:
        raise errors.PipelineError(f"{name}: ended well, but left no {run_folder.RESULT}")


def _failure(job: Job, state: str, error: Mapping[str, Any]) -> errors.PipelineError:
    """Returns what a job failed with, in the words of the process that it failed in."""
    marker = job.run.read(fatal.MARKER)
    if marker is not None:
        text = f"{marker['task']}: {marker['error']}"
        return errors.of_exit_code(int(marker["exit_code"]), text)
    told = [
        f"{name}: {status.error}"
        for name, status in run_folder.read_statuses(job.run).items()
        if status.error
    ]
    said = str(error.get("message", "")) or "; ".join(told) or "the service gives no reason"
    reason = said.splitlines()[0].rstrip(".")
    line = f"the job {service_client.word(state)}: {reason}"
    if error.get("code") == _QUOTA:
        return errors.RetryableError(f"{line}. {google_api.QUOTA}")
    if error.get("code") in _OF_USER and "image" in said.lower():
        return errors.UsageError(
            f"{line}. Look that IMAGE={job.config.gcp.image} is pushed, and that the service agent "
            "of Vertex AI may read it (roles/artifactregistry.reader)"
        )
    return errors.RetryableError(
        f"{line}. make logs shows more; the same command goes on from the last checkpoint"
    )
