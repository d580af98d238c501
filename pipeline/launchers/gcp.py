"""Runs a job on Vertex AI: submits it, follows it to its end, finds it again when asked twice.

The processes are those of `trainer.task` in the image of the `Dockerfile`; what they say of
themselves is read from the run folder, as anywhere.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable

from pipeline import cloud_storage, display, errors, fatal, run_folder, run_record, storage
from pipeline.job import Job
from pipeline.launchers import bookkeeping, gcp_job
from pipeline.launchers.gcp_service import ENDED, Service
from pipeline.run_record import RunRecord

_POLL = 15.0  # seconds
# So many requests in a row may fail before it is given up to follow: the job itself goes on.
_MISSED = 20


@dataclasses.dataclass(frozen=True)
class GcpLauncher:
    """A launcher for Vertex AI. The fields are what tests put others in place of."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    poll: float = _POLL

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs `job` as `base.Launcher` says. Ctrl-C leaves the job running."""
        gcp = job.config.gcp
        gcp.check()
        _check_places(job)
        contents = bookkeeping.checked_manifest(job)
        service = Service(str(gcp.project), str(gcp.region))
        name = service.find(gcp_job.label(job.name))
        if name is not None:
            print(f"run {job.name} is at work already; following it")
            record = run_record.read(job.run) or run_record.begin(job.config, job.run)
        else:
            record = bookkeeping.open_run(job)
            job.run.remove(fatal.MARKER)
            record.manifest = contents.sha256
            job = bookkeeping.resolved(job, contents)
            name = service.create(gcp_job.render(job, secrets.token_hex(8)))
        print(f"job      {service.link(name)}", flush=True)
        try:
            self._follow(job, service, name)
        except errors.PipelineError as error:
            bookkeeping.close(job, record, error, stopped=False)
            raise
        except KeyboardInterrupt:
            raise errors.RetryableError(
                f"the job of run {job.name!r} goes on without us. The same command follows it "
                "again; make stop lets it save, evaluate, export and end"
            ) from None
        done = job.run.read(run_folder.TRAINING_DONE) or {}
        record.reason = str(done.get("reason", run_record.ALL_STEPS))
        record.seconds["total"] = round(self.clock() - started, 3)
        bookkeeping.close(job, record, None, stopped=False)
        return record

    def _follow(self, job: Job, service: Service, name: str) -> None:
        """Returns when the job has ended well. Raises the `PipelineError` of what it failed with,
        or that it cannot be followed any more."""
        missed, before = 0, ""
        with display.Display(job.config.train.max_steps) as shown:
            while True:
                try:
                    found = service.get(name)
                    missed = 0
                except errors.RetryableError:
                    missed += 1
                    if missed > _MISSED:
                        raise
                    self.sleep(self.poll)
                    continue
                state = str(found.get("state", "JOB_STATE_UNSPECIFIED"))
                if state != before:
                    shown.say(f"Vertex AI: {state.removeprefix('JOB_STATE_').lower()}")
                before = state
                shown.show(run_folder.read_statuses(job.run))
                if state in ENDED:
                    break
                self.sleep(self.poll)
        if state != "JOB_STATE_SUCCEEDED":
            raise _failure(job, state, str(found.get("error", {}).get("message", "")))
        if job.run.read(run_folder.RESULT) is None:
            raise errors.PipelineError(f"{name}: ended well, but left no {run_folder.RESULT}")


def _check_places(job: Job) -> None:
    """Raises `UsageError` for a run that the machines would not find, or find far away."""
    gcp = job.config.gcp
    if not storage.is_remote(job.run.path):
        raise errors.UsageError(
            f"CLUSTER=gcp: STORAGE is {job.storage_root!r}, which Google's machines do not see. "
            f"Use STORAGE=gs://{gcp.bucket}/folder"
        )
    location = cloud_storage.location(job.run.path)
    if "-" in location and location != gcp.region:
        raise errors.UsageError(
            f"{job.storage_root!r}: the bucket is in {location}, the job would be in {gcp.region}: "
            "slow, and paid by the byte. Use a bucket there, or REGION=" + location
        )


def _failure(job: Job, state: str, said: str) -> errors.PipelineError:
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
    reason = said or "; ".join(told) or "the service gives no reason"
    word = state.removeprefix("JOB_STATE_").lower()
    return errors.RetryableError(
        f"the job {word}: {reason.splitlines()[0].rstrip('.')}. Look at its logs in the console; "
        "the same command goes on from the last checkpoint"
    )
