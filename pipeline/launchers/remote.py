"""A place that takes whole jobs: they are submitted, followed, found again, stopped and cancelled.

No command has to follow a job: its processes write the run folder, as at any place. That it has
ended may be known to the service alone. The name of a job, in `run.json`, is what the service calls
it, after `pipeline.places.Place.jobs`.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import itertools
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from pipeline import errors, places
from pipeline.console import interrupts
from pipeline.jobs import display, run_setup
from pipeline.jobs.job import Job
from pipeline.launchers import base, remote_jobs, rescaling
from pipeline.runs import fatal, run_folder, run_lock, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

# Seconds before the second submission of a job; longer before each after that.
_PAUSE = 60.0
_Found = TypeVar("_Found")
_SETTLE = "The command that submitted it, once more, takes note of the end"


class Phase(enum.Enum):
    """Whether a job waits for machines, has them, or will not run any more."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True)
class State:
    """How a job is doing, as its service reports it: `word` is the service's own, in lower case;
    `text`, by default the same, may add a reason. `answer` is for the place itself."""

    phase: Phase
    word: str
    text: str = ""
    was_cancelled: bool = False
    answer: Any = None

    @property
    def is_running(self) -> bool:
        """True if it has machines."""
        return self.phase is Phase.RUNNING

    @property
    def has_ended(self) -> bool:
        """True if it will not run any more."""
        return self.phase is Phase.ENDED

    def __str__(self) -> str:
        return self.text or self.word


@dataclasses.dataclass(frozen=True)
class RemoteLauncher(base.Launcher):
    """Runs jobs at a place that takes them whole. The fields are what tests put others in place of.

    A place provides `service`, `prepare`, `submit`, `find`, `look`, `cancel`, `failure` and `show`;
    the rest has a default. All but `show` raise `RetryableError` if the service does not answer,
    and `UsageError` with its own words if it refuses.
    """

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    # Seconds between two looks at a job.
    poll: float = 5.0
    wants_to_cancel: Callable[[str], bool] = interrupts.wants_to_cancel

    # What people call the service.
    service: ClassVar[str]
    # After so many failed looks in a row it is no longer followed; the job itself continues.
    missed: ClassVar[int] = 20
    # True if a job can have another number of workers: `resize` and `save_and_end`.
    scales: ClassVar[bool] = False

    @abc.abstractmethod
    def prepare(self, job: Job) -> Job:
        """Checks what can be checked before anything is written, and returns the job with what it
        settles, such as the records. Raises the `PipelineError` of what cannot work there."""

    def require(self, job: Job) -> None:
        """Checks a job, and that the service answers."""
        self.find(self.prepare(job))

    def begin(self, job: Job, record: RunRecord) -> Job:
        """Adds to the run folder and the record what the processes expect, right before the
        submission; returns the job to submit."""
        return job

    @abc.abstractmethod
    def submit(self, job: Job, submission: str) -> str:
        """Submits a job and returns its name, as in `run.json`. `submission` is what its processes
        must have in the environment variable `fatal.SUBMISSION`."""

    @abc.abstractmethod
    def find(self, job: Job) -> str | None:
        """Returns the name of a job of the same run that has not ended, or `None`: the answer to
        its submission may have been lost."""

    @abc.abstractmethod
    def look(self, name: str) -> State:
        """Returns how a job is doing; one that the service does not know any more has ended."""

    @abc.abstractmethod
    def cancel(self, name: str) -> None:
        """Ends a job at once."""

    @abc.abstractmethod
    def failure(self, job: Job, name: str, state: State) -> errors.PipelineError | None:
        """Returns what a job that has ended, without a word of its own in the run's record, has
        failed with; `None` if it ended well."""

    def find_blocker(self, job: Job, state: State) -> errors.PipelineError | None:
        """Returns why a job that has not ended waits for what will not come: it is cancelled then.
        By default none does."""
        return None

    @abc.abstractmethod
    def show(self, job: Job) -> base.Shown:
        """Returns the job as `base.Launcher` says."""

    def resize(self, run: RunFolder, name: str, workers: int) -> None:
        """Gives an asynchronous job another number of workers; no other process is restarted. For
        a place that `scales`."""
        raise NotImplementedError

    def save_and_end(self, run: RunFolder, name: str) -> None:
        """Has a job end after all its processes have saved. For a place that `scales`."""
        raise NotImplementedError

    def open_output(self, job: Job) -> Callable[[], list[str]]:
        """Returns what gives the lines that the job itself has put out since the last call."""
        return list

    def submissions(self, job: Job) -> int:
        """Returns how often a job is submitted in all if it ends for reasons that may pass."""
        return 1

    def title(self, name: str) -> str:
        """Returns what a job is called in a sentence."""
        return f"job {name.rpartition('/')[2]} on {self.service}"

    def headline(self, name: str) -> str:
        """Returns what `make status` writes before the state of a job."""
        return self.service

    def describe_place(self, name: str) -> str:
        """Returns what a run is whose job has not ended."""
        page = self.link(name)
        return f"running on {self.service}" + (f" ({page})" if page else "")

    def link(self, name: str) -> str | None:
        """Returns the page of a job, if it has one."""
        return None

    def logs_link(self, name: str) -> str | None:
        """Returns the page with all that a job's processes have put out, if there is one."""
        return None

    # What follows is the same at all places.

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs a job as `base.Launcher` says. Ctrl-C leaves it running, or cancels it."""
        job = self.prepare(job)
        output = self.open_output(job)
        found = self._find_unfinished_job(job)
        if found is None:  # else its chief holds the lock, where the file system shares it
            with run_lock.hold(job.run):
                found = self._find_unfinished_job(job)  # of a command that was quicker
                if found is None:
                    job, name = self.begin_job(job)
        if found is not None:
            name = found
            run_setup.note_job(job, name)
            output()  # has been shown before
        for submitted in itertools.count(1):
            state = self._follow_to_end(job, name, output)
            while (other := rescaling.successor(self, job.run, name)) is not None:
                name, output = other, self.open_output(job)
                state = self._follow_to_end(job, name, output)
            again = self._find_resubmit_reason(job, name, state)
            if again is None or submitted >= self.submissions(job):
                return self.finish(job, name, state, started=started)
            print(f"{again} Submitting it again: {submitted + 1} of {self.submissions(job)}")
            self.sleep(_PAUSE * submitted)
            with run_lock.hold(job.run):
                job, name = self.begin_job(job)
        raise AssertionError("unreachable")

    def _follow_to_end(self, job: Job, name: str, output: Callable[[], list[str]]) -> State:
        """Returns the state of a job at its end. Raises what leaves it, or cancels it."""
        page = self.link(name)
        leave = f"{self.title(name)}: Ctrl-C leaves it running"
        print(f"job      {page}" if page else leave, flush=True)
        try:
            # If it cannot be followed any more, nothing is recorded: the job continues.
            return self._follow(job, name, output)
        except KeyboardInterrupt:
            if self.wants_to_cancel(f"the job of run {job.name}"):
                raise self.cancel_run(job, name) from None
            raise errors.StoppedError(
                f"the job of run {job.name!r} keeps running as {self.title(name)}. The same "
                "command follows it again; make status, make logs and make stop work on it"
            ) from None

    def cancel_run(self, job: Job, name: str) -> errors.PipelineError:
        """Cancels the job of a run and records that; returns what to raise."""
        self.cancel(name)
        error = errors.StoppedError(
            f"the job of run {job.name!r} is cancelled. The same command continues from its last "
            "checkpoint"
        )
        record = run_record.read(job.run)
        if record is not None:
            run_setup.close(job, record, error, stopped=True)
        return error

    def _find_resubmit_reason(self, job: Job, name: str, state: State) -> str | None:
        """Returns the reason why a job has to be submitted again: it was neither done nor stopped,
        and none of its processes has failed for good."""
        record = run_record.read(job.run)
        asked = job.run.read(run_folder.STOP) is not None
        if asked or state.was_cancelled or record is None or record.status != "running":
            return None
        error = self.failure(job, name, state)
        if not isinstance(error, errors.RetryableError):
            return None
        return f"{error}."

    def has_ended(self, name: str) -> bool:
        """True if the service says that a job is over."""
        try:
            return self.look(name).phase is Phase.ENDED
        except errors.RetryableError:
            return False

    def stop(self, run: RunFolder, name: str) -> str | None:
        """Returns what has been done to end the job of a run, or `None` if its processes are to be
        asked. A job that waits for machines has nothing to save: it is cancelled.

        Raises `UsageError` if it has ended, and its end is not recorded yet.
        """
        state = self.look(name)
        if state.phase is Phase.ENDED:
            raise errors.UsageError(
                f"run {run.name!r}: nothing to stop, its {self.title(name)} is {state.word}. "
                f"{_SETTLE}"
            )
        if state.phase is Phase.RUNNING:
            return None
        self.cancel(name)
        return f"its {self.title(name)} had no machines yet, and is cancelled"

    def refuse_while_going(self, run: RunFolder, name: str) -> None:
        """Raises `UsageError` if the job of a run has not ended."""
        if self.look(name).phase is not Phase.ENDED:
            raise errors.UsageError(
                f"run {run.name!r}: is {self.describe_place(name)}. Follow it with "
                f"CLUSTER={places.find_place(name)}, end it with make stop, or use another RUN="
            )

    def describe(self, name: str) -> list[str]:
        """Returns what the service says of a job, in lines."""
        pages = {"job      ": self.link(name), "all logs ": self.logs_link(name)}
        links = [f"{label}{page}" for label, page in pages.items() if page]
        try:
            state = self.look(name)
        except errors.PipelineError as error:
            return [f"its {self.title(name)} cannot be asked about: {error}", *links]
        settle = [_SETTLE] if state.phase is Phase.ENDED else []
        return [f"{self.headline(name)}: {state}", *settle, *links]

    def _find_unfinished_job(self, job: Job) -> str | None:
        """Returns the run's job, if it has one that has not ended, or whose end is not recorded.
        Raises `UsageError` if its processes are running at another place."""
        name = run_record.job_at_work(run_record.read(job.run))
        if name is not None:
            if type(remote_jobs.launcher(name)) is type(self):
                return name
            remote_jobs.refuse_while_going(job.run)
        return self.find(job)

    def begin_job(self, job: Job) -> tuple[Job, str]:
        """Prepares the run folder and submits the job; returns both, and the name of what runs."""

        def submit(jobs: list[Job], submission: str) -> list[str]:
            return [self.submit(jobs[0], submission)]

        [begun] = self.begin_together([job], submit)
        return begun

    def begin_together(
        self, jobs: Iterable[Job], submit: Callable[[list[Job], str], list[str]]
    ) -> list[tuple[Job, str]]:
        """Prepares the folders of several runs, and submits their jobs as one; returns each with
        its name. `submit` takes all of them, and returns their names."""
        submission = secrets.token_hex(8)
        opened: list[tuple[Job, RunRecord]] = []
        try:
            for job in jobs:
                opened.append((job, run_setup.open_run(job)))
                job.run.remove(fatal.MARKER)
                fatal.begin(job.run, submission)
                opened[-1] = (self.begin(job, opened[-1][1]), opened[-1][1])
            names = submit([job for job, _ in opened], submission)
        except errors.PipelineError as error:
            for job, record in opened:
                run_setup.close(job, record, error, stopped=False)
            raise
        for (job, record), name in zip(opened, names, strict=True):
            record.job = name
            run_record.write(job.run, record)
        return [(job, name) for (job, _), name in zip(opened, names, strict=True)]

    def _follow(self, job: Job, name: str, output: Callable[[], list[str]]) -> State:
        """Returns the state of a job when it has ended. Raises the `PipelineError` of why it cannot
        be followed any more."""
        before = ""
        stall_seconds = job.config.cluster.watchdog_seconds
        steps = job.config.train.planned_steps
        with display.Display(steps, stall_seconds=stall_seconds) as shown:
            while True:
                state = self.retry_look(lambda: self.look(name))
                if str(state) != before:
                    shown.show_line(f"{self.service}: {state}")
                before = str(state)
                for line in output():
                    shown.show_line(line)
                if state.phase is Phase.WAITING:
                    shown.pause()
                else:
                    shown.show(run_folder.read_statuses(job.run))
                if state.phase is Phase.ENDED:
                    return state
                self.give_up(job, name, state)
                self.sleep(self.poll)

    def give_up(self, job: Job, name: str, state: State) -> None:
        """Cancels a job that is hopeless, and raises why."""
        error = self.find_blocker(job, state)
        if error is None:
            return
        self.cancel(name)
        record = run_record.read(job.run) or run_record.begin(job.config, job.run)
        run_setup.close(job, record, error, stopped=False)
        raise error

    def retry_look(self, look: Callable[[], _Found]) -> _Found:
        """Returns what a look at jobs finds; looks may fail, though not many in a row."""
        for _ in range(self.missed):
            try:
                return look()
            except errors.RetryableError:
                self.sleep(self.poll)
        return look()

    def finish(self, job: Job, name: str, state: State, *, started: float) -> RunRecord:
        """Returns the record of a run that is done. Raises the `PipelineError` of another end."""
        record = run_record.read(job.run) or run_record.begin(job.config, job.run)
        if record.status == "done":  # the job has recorded its end itself
            return record
        if record.status in ("failed", "stopped"):
            stopped = record.status == "stopped"
            raise errors.build_from_exit_code(record.exit_code or 1, record.reason, stopped=stopped)
        error = self.failure(job, name, state)
        if error is not None:
            stopped = state.was_cancelled
            error = errors.build_from_exit_code(error.exit_code, str(error), stopped=stopped)
            run_setup.close(job, record, error, stopped=stopped)
            raise error
        record.reason = run_record.reason_of_end(job.run)
        record.seconds["total"] = round(self.clock() - started, 3)
        run_setup.close(job, record, None, stopped=False)
        return record


def find_final_error(job: Job) -> errors.PipelineError | None:
    """Returns what a process of a job has failed with for good, in its own words, if one has."""
    marker = job.run.read(fatal.MARKER)
    if marker is None:
        return None
    text = f"{marker['task']}: {marker['error']}"
    return errors.build_from_exit_code(int(marker["exit_code"]), text)
