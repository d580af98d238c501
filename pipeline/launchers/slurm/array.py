"""An array: several runs of one job, each with a seed of its own, that are submitted together.

Each has a folder and a record of its own; its job has the number of the array and its index there.
A command submits those that are neither done nor at work, and follows all that are not done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pipeline import errors, redaction, storage
from pipeline.jobs import display, run_setup
from pipeline.jobs.job import Job
from pipeline.launchers import remote_jobs, remote_records, rescaling
from pipeline.launchers.remote import Phase, State
from pipeline.launchers.slurm import commands, elements, script
from pipeline.launchers.slurm.settings import Slurm
from pipeline.runs import array_names, run_lock, run_record

if TYPE_CHECKING:
    from pipeline.launchers.slurm.launcher import SlurmLauncher

# What gives the lines that a job has put out since the last call.
_Output = Callable[[], list[str]]


def run(launcher: SlurmLauncher, job: Job, *, started: float) -> None:
    """Runs an array to its end. Ctrl-C leaves it running, or cancels it.

    Raises the `PipelineError` of the worst end of a run, if not all ended well.
    """
    launcher.prepare(job)
    if storage.is_remote(job.storage_root):
        remote_records.attach_records(job)  # there, all would make them, and only one may
    runs = {index: elements.run_of(job, index) for index in Slurm.of(job.config).indexes}
    for index, one in [*runs.items()]:
        if (record := run_record.find_finished(one.config, one.run)) is not None:
            print(display.describe_finished(one, record), flush=True)
            del runs[index]
    if not runs:
        return
    outputs = {index: launcher.open_output(one) for index, one in runs.items()}
    names = _jobs_of(launcher, job, runs, outputs=outputs)
    array = _Array(launcher, runs, names, outputs=outputs, name=job.name, started=started)
    print(f"{array.title}: Ctrl-C leaves it running", flush=True)
    try:
        array.follow()
    except KeyboardInterrupt:
        if launcher.wants_to_cancel(f"the jobs of {job.name}"):
            raise array.cancel() from None
        raise errors.StoppedError(
            f"{array.title} keeps running. The same command follows it again; make status, make "
            "logs and make stop work on each run"
        ) from None
    array.raise_failures()


def _jobs_of(
    launcher: SlurmLauncher, job: Job, runs: dict[int, Job], *, outputs: Mapping[int, _Output]
) -> dict[int, str]:
    """Returns the name of the job of each run; submits those that have none."""
    with contextlib.ExitStack() as held:
        for index in set(runs) - set(
            _find_unfinished_jobs(job, runs)
        ):  # of others the chief has the lock
            held.enter_context(run_lock.hold(runs[index].run))
        names = _find_unfinished_jobs(job, runs)
        for index, name in names.items():
            run_setup.note_job(runs[index], name)
            outputs[index]()  # has been shown before
        missing = [index for index in runs if index not in names]

        def submit(_: list[Job], submission: str) -> list[str]:
            text = script.render(elements.select_runs(job, missing), submission)
            number = commands.submit(text)
            return [f"{commands.JOB}{number}_{index}" for index in missing]

        if missing:
            begun = launcher.begin_together([runs[index] for index in missing], submit)
            names |= {index: name for index, (_, name) in zip(missing, begun, strict=True)}
    return names


def _find_unfinished_jobs(job: Job, runs: Mapping[int, Job]) -> dict[int, str]:
    """Returns the job of each run that has one which has not ended, or whose end is not recorded.
    Raises `UsageError` if the processes of one are running at another place."""
    found = commands.find_array(script.comment(job.run, is_array=True))
    names = {index: commands.JOB + found[index] for index in runs if index in found}
    for index, one in runs.items():
        name = run_record.job_at_work(run_record.read(one.run))
        if name is not None and name.startswith(commands.JOB):
            names[index] = name
        elif name is not None:
            remote_jobs.refuse_while_going(one.run)
    return names


class _Array:
    """The jobs of an array that are followed, and what has become of them."""

    def __init__(
        self,
        launcher: SlurmLauncher,
        runs: Mapping[int, Job],
        names: Mapping[int, str],
        *,
        outputs: Mapping[int, _Output],
        name: str,
        started: float,
    ) -> None:
        self._launcher, self._runs, self._name, self._started = launcher, runs, name, started
        self._outputs = dict(outputs)
        self._names = dict(sorted(names.items()))  # of those that have not ended
        self._shown: dict[int, str] = {}
        self._failures: dict[int, errors.PipelineError] = {}

    @property
    def title(self) -> str:
        """What Slurm calls the jobs that have not ended, and which runs they are."""
        numbers = dict.fromkeys(
            name.removeprefix(commands.JOB).partition("_")[0] for name in self._names.values()
        )
        runs = array_names.list_names(self._name, self._names)
        return f"Slurm job {', '.join(numbers)} ({runs})"

    def follow(self) -> None:
        """Returns when all jobs have ended; shows each state of a job that is new, and what the job
        has put out."""
        while True:
            states = self._launcher.retry_look(
                lambda: self._launcher.look_at_all(self._names.values())
            )
            self._show(states)
            self._show_output(states)
            for index, name in [*self._names.items()]:
                self._take_note(index, states[name])
            if not self._names:
                return
            self._launcher.sleep(self._launcher.poll)

    def _show(self, states: Mapping[str, State]) -> None:
        """Shows what is new; runs that are in the same state share a line."""
        new: dict[str, list[int]] = {}
        for index, name in self._names.items():
            text = str(states[name])
            if self._shown.get(index) != text:
                new.setdefault(text, []).append(index)
                self._shown[index] = text
        for text, indexes in new.items():
            print(f"{array_names.list_names(self._name, indexes)}: {text}", flush=True)

    def _show_output(self, states: Mapping[str, State]) -> None:
        """Shows what jobs have put out since the last look, such as that a process was lost."""
        for index, name in self._names.items():
            if states[name].phase is not Phase.WAITING:
                for line in self._outputs[index]():
                    print(f"{self._runs[index].name}: {redaction.redact(line)}", flush=True)

    def _take_note(self, index: int, state: State) -> None:
        """Shows and keeps how a run has ended, if it has."""
        job, name = self._runs[index], self._names[index]
        try:
            if not state.has_ended:
                self._launcher.give_up(job, name, state)
                return
            other = rescaling.successor(self._launcher, job.run, name)
            if other is not None:
                self._names[index] = other
                self._outputs[index] = self._launcher.open_output(job)
                return
            record = self._launcher.finish(job, name, state, started=self._started)
            line = f"done: {display.describe_result(record)}"
        except errors.PipelineError as error:
            self._failures[index] = error
            line = error.line
        del self._names[index]
        print(f"{job.name}: {line}", flush=True)

    def cancel(self) -> errors.PipelineError:
        """Cancels the jobs that have not ended, and records that; returns what to raise."""
        title = self.title
        for index, name in self._names.items():
            self._launcher.cancel_run(self._runs[index], name)
        return errors.StoppedError(
            f"{title} is cancelled. The same command continues from the last checkpoints"
        )

    def raise_failures(self) -> None:
        """Raises the `PipelineError` of the worst end, if a run did not end well: one that another
        start would not change, if there is such."""
        if not self._failures:
            return
        codes = {index: error.exit_code for index, error in self._failures.items()}
        again = errors.RetryableError.exit_code
        listed = ", ".join(f"{self._runs[i].name} ({code})" for i, code in sorted(codes.items()))
        raise errors.build_from_exit_code(
            max(codes.values(), key=lambda code: (code != again, code)),
            f"{len(codes)} of {len(self._runs)} runs did not end well, with these exit codes: "
            f"{listed}. The same command starts them again",
            stopped=all(isinstance(e, errors.StoppedError) for e in self._failures.values()),
        )
