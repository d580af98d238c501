"""Slurm: jobs are scripts for sbatch.

What runs there is `pipeline.launchers.slurm.batch`, which looks after the run by itself: no
command has to follow it.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import base, checks, inline_config
from pipeline.launchers.remote import Phase, RemoteLauncher, State
from pipeline.launchers.slurm import array, commands, extra_workers, output, script, waits
from pipeline.launchers.slurm.settings import Slurm
from pipeline.runs import log_reader, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

# Slurm's exit code of a job whose output it could not open on the node.
_NO_OUTPUT = "0:53"
# How the last line of the script begins when it did not end well: the command says that itself.
_LAST_WORDS = ("error: ", "stopped by ")


@dataclasses.dataclass(frozen=True)
class SlurmLauncher(RemoteLauncher):
    """A launcher for Slurm."""

    poll: float = 2.0
    service: ClassVar[str] = "Slurm"
    missed: ClassVar[int] = 30
    scales: ClassVar[bool] = True

    def prepare(self, job: Job) -> Job:
        """Checks that Slurm's programs are here, and that a script can hold the job."""
        commands.require()
        script.render(job, "")
        return job

    def begin(self, job: Job, record: RunRecord) -> Job:
        """Makes the folder that Slurm writes the output of the script to."""
        storage.makedirs(storage.parent(job.run.log_path(script.LOG)))
        job.run.remove(storage.join("logs", f"{script.LOG}.log"))
        return job

    def room(self, job: Job) -> Room | None:
        """Returns the memory of a node, on which there may be one process or several."""
        gigabytes = Slurm.of(job.config).memory_gb
        if gigabytes is None:
            return None
        one_node = Slurm.of(job.config).nodes == 1
        return Room(gigabytes << 30, f"slurm.memory_gb is {gigabytes}", each=not one_node)

    def submit(self, job: Job, submission: str) -> str:
        """Gives the script to sbatch."""
        return commands.JOB + commands.submit(script.render(job, submission))

    def find(self, job: Job) -> str | None:
        """Finds the job by its comment."""
        number = commands.find(script.comment(job.run))
        return None if number is None else commands.JOB + number

    def look(self, name: str) -> State:
        """Asks squeue."""
        return self._state(name, commands.state(_parse_number(name)))

    def look_at_all(self, names: Iterable[str]) -> dict[str, State]:
        """Returns how each job is doing; asks once for all of an array."""
        numbers = {name: _parse_number(name) for name in names}
        known: dict[str, tuple[str, str]] = {}
        for number in sorted({n.partition("_")[0] for n in numbers.values() if "_" in n}):
            known |= commands.states(number)
        return {
            name: self._state(name, known.get(number) or commands.state(number))
            for name, number in numbers.items()
        }

    def _state(self, name: str, found: tuple[str, str]) -> State:
        word, reason = found
        prospect = waits.find_prospect(_parse_number(name), word, reason)
        phase = Phase.ENDED if word in commands.ENDED else Phase.RUNNING
        return State(
            Phase.WAITING if word in commands.WAITING else phase,
            word.lower(),
            prospect.text,
            was_cancelled=word == "CANCELLED",
            answer=prospect.never,
        )

    def is_array(self, job: Job) -> bool:
        """True with `slurm.array`."""
        return Slurm.of(job.config).array is not None

    def run_array(self, job: Job, *, started: float) -> None:
        """Submits the runs that are neither done nor at work, and follows all."""
        array.run(self, job, started=started)

    def has_ended(self, name: str) -> bool:
        """True if Slurm says that the job is over; logs may be read on machines without Slurm."""
        try:
            return self.look(name).phase is Phase.ENDED
        except errors.PipelineError:
            return False

    def find_blocker(self, job: Job, state: State) -> errors.PipelineError | None:
        """Returns why Slurm took a job that it never starts, as it does unless EnforcePartLimits is
        set, and of limits for all jobs."""
        found: errors.UsageError | None = state.answer
        return found

    def cancel(self, name: str) -> None:
        """Cancels the job: its processes get SIGTERM first."""
        commands.cancel(_parse_number(name))

    def resize(self, run: RunFolder, name: str, workers: int) -> None:
        """Submits a job for each worker that is to join. The run's own job takes in the rest."""
        extra_workers.submit(run, run_folder.storage_root(run), workers)
        extra_workers.withdraw(run, first=workers)
        run.write(run_folder.SCALE, {"workers": workers})

    def save_and_end(self, run: RunFolder, name: str) -> None:
        """Has all processes save, as before a time limit; `SCALE.json` keeps the job from going
        into the queue again."""
        commands.ask("scancel", "--batch", "--signal=TERM", _parse_number(name))

    def failure(self, job: Job, name: str, state: State) -> errors.PipelineError | None:
        """Returns why a job has ended that could not record it."""
        exit_code = commands.exit_of(_parse_number(name))
        if exit_code == _NO_OUTPUT:
            return errors.UsageError(
                f"{self.title(name)}: its node could not write to {job.run.path!r}. Use a STORAGE= "
                "that all nodes share"
            )
        code = exit_code.partition(":")[0]
        if code.isdigit() and int(code) in errors.FINAL_CODES:
            said = output.find_last_error(job.run)
            said = said or f"{self.title(name)} failed: see make logs ROLE={script.LOG}"
            return errors.build_from_exit_code(int(code), said)
        how = f" (exit code {exit_code})" if exit_code not in ("", "0:0") else ""
        return errors.RetryableError(
            f"{self.title(name)} ended as {state.word}{how}. make logs shows more; the same "
            "command continues from the last checkpoint"
        )

    def open_output(self, job: Job) -> Callable[[], list[str]]:
        """Returns what reads the output of the script, but not that of its processes."""
        logs = log_reader.Logs(job.run, script.LOG)

        def lines() -> list[str]:
            if not storage.exists(job.run.log_path(script.LOG)):
                return []
            return [line for line in logs.read_new_lines() if not line.startswith(_LAST_WORDS)]

        return lines

    def title(self, name: str) -> str:
        """Returns the number that Slurm's programs take, too."""
        return f"Slurm job {_parse_number(name)}"

    def headline(self, name: str) -> str:
        """Returns the same."""
        return self.title(name)

    def describe_place(self, name: str) -> str:
        """Returns the same."""
        return self.title(name)

    def show(self, job: Job) -> base.Shown:
        """Returns the script, of a submission of its own and with the config in it."""
        notes = [f"warning: {w}" for w in config_file.warnings(job.config)]
        inline = inline_config.text(job)
        document = script.render(job, secrets.token_hex(8), inline=inline).rstrip()
        return base.Shown(document, "\n".join(["would give the script above to sbatch", *notes]))

    def checks(self, storage_root: str) -> Iterator[checks.Finding]:
        """Yields, besides the usual, whether Slurm's programs are here and their controller
        answers."""
        yield from super().checks(storage_root)
        yield checks.attempt(commands.ping, "Slurm's controller answers")


def _parse_number(name: str) -> str:
    return name.removeprefix(commands.JOB)
