"""Runs a job on a Slurm cluster: submits it, follows it, and finds it again when asked twice.

What runs there is `pipeline.launchers.slurm.batch`, which looks after the run by itself: nobody has
to follow it.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable

from pipeline import errors, redaction, storage
from pipeline.console import interrupts
from pipeline.jobs import display, run_setup
from pipeline.jobs import job as jobs
from pipeline.jobs.job import Job
from pipeline.launchers.slurm import commands, job_status, script
from pipeline.runs import fatal, log_reader, run_folder, run_lock, run_record
from pipeline.runs.run_record import RunRecord

_POLL = 2.0  # seconds
# So many questions in a row may fail before it is given up to follow: the job itself goes on.
_MISSED = 30
# Slurm's exit code of a job whose output it could not open on the node.
_NO_OUTPUT = "0:53"


@dataclasses.dataclass(frozen=True)
class SlurmLauncher:
    """A launcher for Slurm. The fields are what tests put others in place of."""

    sleep: Callable[[float], None] = time.sleep
    poll: float = _POLL
    wants_to_cancel: Callable[[str], bool] = interrupts.wants_to_cancel

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs `job` as `base.Launcher` says. Ctrl-C leaves the job running, or cancels it."""
        commands.require()
        with run_lock.held(job.run):  # the chief takes it, once the job runs
            number = _going(job)
            logs = log_reader.Logs(job.run, script.LOG)
            if number is None:
                number = _submitted(job)
            else:
                _found(job, number)
                _new_lines(job, logs)  # has been shown before
        print(f"Slurm job {number}: Ctrl-C leaves it running", flush=True)
        try:
            state = self._follow(job, number, logs)
        except KeyboardInterrupt:
            if self.wants_to_cancel(f"the job of run {job.name}"):
                commands.cancel(number)
                raise _cancelled(job) from None
            raise errors.RetryableError(
                f"the job of run {job.name!r} keeps running as Slurm job {number}. The same "
                "command follows it again; make status, make logs and make stop work on it"
            ) from None
        return _ended(job, number, state)

    def _follow(self, job: Job, number: str, logs: log_reader.Logs) -> str:
        """Returns the state of the job when it has ended."""
        before = ("", "")
        with display.Display(job.config.train.steps) as shown:
            while True:
                found = self._look(number)
                if found != before:
                    state, reason = found
                    shown.say(f"Slurm: {state.lower()}" + (f" ({reason})" if reason else ""))
                before = found
                for line in _new_lines(job, logs):
                    shown.say(line)
                if found[0] not in commands.WAITING:
                    shown.show(run_folder.read_statuses(job.run))
                if found[0] in commands.ENDED:
                    return found[0]
                self.sleep(self.poll)

    def _look(self, number: str) -> tuple[str, str]:
        """Returns the state of the job; questions may fail, though not many in a row."""
        for _ in range(_MISSED):
            try:
                return commands.state(number)
            except errors.RetryableError:
                self.sleep(self.poll)
        return commands.state(number)


def _going(job: Job) -> str | None:
    """Returns the number of the run's job, if it has one that has not ended, or has and nobody has
    recorded it. Raises `UsageError` if its processes are at work elsewhere."""
    record = run_record.read(job.run)
    if record is not None and record.status == "running" and record.job is not None:
        if record.job.startswith(job_status.JOB):
            return job_status.number(record.job)
        raise errors.UsageError(
            f"run {job.name!r}: is at work on Vertex AI. Follow it with CLUSTER=gcp, end it with "
            "make stop, or use another RUN="
        )
    return commands.find(script.comment(job.run))


def _submitted(job: Job) -> str:
    """Prepares the run folder and submits the job; returns its number."""
    submission = secrets.token_hex(8)
    text = script.render(job, submission)
    record = run_setup.open_run(job)
    try:
        job.run.remove(fatal.MARKER)
        fatal.begin(job.run, submission)
        storage.makedirs(storage.parent(job.run.log_path(script.LOG)))
        job.run.remove(storage.join("logs", f"{script.LOG}.log"))
        number = commands.submit(text)
    except errors.PipelineError as error:
        run_setup.close(job, record, error, stopped=False)
        raise
    record.job = f"{job_status.JOB}{number}"
    run_record.write(job.run, record)
    return number


def _found(job: Job, number: str) -> None:
    """Says that the run has a job already. The answer to its submission may have been lost."""
    print(f"run {job.name} has been submitted already; following it")
    for line in jobs.changes(job):
        print(redaction.redact(f"changed since then, so not for this job: {line}"))
    record = run_record.read(job.run) or run_record.begin(job.config, job.run)
    if record.job != f"{job_status.JOB}{number}":
        record.status, record.reason, record.exit_code = "running", "training", None
        record.job = f"{job_status.JOB}{number}"
        run_record.write(job.run, record)


def _new_lines(job: Job, logs: log_reader.Logs) -> list[str]:
    """Returns what the job itself has said, but not its processes."""
    if not storage.exists(job.run.log_path(script.LOG)):
        return []
    return [line for line in logs.new_lines() if not line.startswith("error: ")]


def _cancelled(job: Job) -> errors.PipelineError:
    error = errors.RetryableError(
        f"the job of run {job.name!r} is cancelled. The same command continues from its last "
        "checkpoint"
    )
    record = run_record.read(job.run)
    if record is not None:
        run_setup.close(job, record, error, stopped=True)
    return error


def _ended(job: Job, number: str, state: str) -> RunRecord:
    """Returns the record of a run that is done. Raises the `PipelineError` of another end."""
    record = run_record.read(job.run)
    if record is not None and record.status == "done":
        return record
    if record is not None and record.status in ("failed", "stopped"):
        raise errors.of_exit_code(record.exit_code or 1, record.reason)
    exit_code = commands.exit_of(number)
    if exit_code == _NO_OUTPUT:
        error: errors.PipelineError = errors.UsageError(
            f"Slurm job {number}: its node could not write to {job.run.path!r}. Use a STORAGE= "
            "that all nodes share"
        )
    else:
        how = f" (exit code {exit_code})" if exit_code not in ("", "0:0") else ""
        error = errors.RetryableError(
            f"Slurm job {number} ended as {state.lower()}{how}. make logs shows more; the same "
            "command continues from the last checkpoint"
        )
    if record is not None:
        run_setup.close(job, record, error, stopped=state == "CANCELLED")
    raise error
