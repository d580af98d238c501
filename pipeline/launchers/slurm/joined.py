"""A worker that joins a run: the one task of a job of its own.

It takes part in whatever step the run's own job has at the moment: when all processes are started
again, or the run's job is, this one begins again with their new addresses. It ends when the run
needs it no more.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import errors
from pipeline.cluster import topology
from pipeline.launchers.slurm import agent, commands, ranks, steps
from pipeline.launchers.slurm.settings import Slurm
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import ports, restart_policy, watchdog

LOOK = 2.0  # seconds
ASK_SLURM = 60.0  # seconds between questions about the run's own job
# How long the request for another number of workers may take to reach the record of the run.
_REQUEST = 60.0
_TRIES = 100
# How long Slurm may take to end a job that goes into the queue again.
_END_BY_SLURM = 600.0


def path_of(worker: int) -> str:
    """Returns where in the run folder a worker leaves its address: {"host": str, "port": int}."""
    return f"slurm/joined/{topology.WORKER}-{worker}.json"


def place_of(run: RunFolder, worker: int) -> tuple[str, int] | None:
    """Returns the address of a worker that has joined, or `None`."""
    try:
        found = run.impatient.read(path_of(worker))
        return None if found is None else (str(found["host"]), int(found["port"]))
    except (errors.PipelineError, OSError, KeyError, ValueError):
        return None


class _Worker(agent.Agent):
    """The process of the worker, for as long as the job step of the others runs."""

    def __init__(self, joined: Joined, task: topology.Task, step: str) -> None:
        super().__init__(
            joined.run,
            joined.root,
            task,
            stop=joined.stop,
            look_seconds=LOOK,
            command=joined.command,
        )
        self._joined, self._step = joined, step
        cluster = joined.run.read_config().cluster
        limits = watchdog.HangLimits(cluster.watchdog_seconds, cluster.watchdog_start_seconds)
        files = functools.partial(watchdog.checkpoint_files, joined.run.impatient)
        self._watchdog = watchdog.Watchdog(limits, files)

    def _is_wanted(self) -> bool:
        return self._joined.is_wanted()

    def _wait_until_wanted(self) -> bool:
        return not self._is_asked and self._is_wanted()

    def _is_left_over(self) -> bool:
        """True if the others were started again."""
        current = self._joined.read_current_step()
        return current is None or current["step"] != self._step

    def _is_lost(self) -> bool:
        return False

    def _tasks_here(self) -> int:
        return 1

    def _find_hang(self) -> watchdog.Hang | None:
        """Looks at it and at the chief, for which it may wait; the run's own job does not."""
        try:
            found = run_folder.read_statuses(self._run.impatient)
            looked_at = {
                name: one
                for name, one in found.items()
                if name in (self._task.name, f"{topology.CHIEF}-0")
                and one.state not in run_folder.ENDED
            }
            pids = {name: one.pid for name, one in looked_at.items()}
            hang = self._watchdog.look(looked_at, pids, time.monotonic())
        except (errors.PipelineError, OSError):
            return None
        if hang is None or hang.name not in (None, self._task.name):
            return None
        return dataclasses.replace(hang, name=self._task.name)  # this process alone is killed

    def _give_up(self, loss: restart_policy.Loss, decision: restart_policy.Decision) -> int:
        """Leaves the others alone, until they are started again."""
        note = f"; {decision.note}" if decision.note else ""
        print(f"{self._task.name}: {loss.cause.rstrip('.')}{note}", flush=True)
        return 0


class Joined:
    """One start of the job of a worker."""

    def __init__(
        self,
        run: RunFolder,
        root: str,
        worker: int,
        *,
        stop: StopRequest,
        command: Sequence[str] = (),
    ) -> None:
        """`command` runs in place of the trainer, if it is given."""
        self.run, self.root, self.stop, self.command = run, root, stop, command
        self._worker, self._began = worker, time.monotonic()
        self._was_counted = False
        self._asked, self._has_ended = time.monotonic(), False

    def work(self) -> None:
        """Returns when the run does not need the worker any more, or it was asked to stop."""
        done = None
        try:
            while not self.stop.count and self.is_wanted() and not self._is_trained():
                current = self.read_current_step()
                if current is not None and current["step"] != done:
                    done = current["step"]
                    self._take_part(current)
                self.stop.wait(LOOK)
        finally:
            self.run.remove(path_of(self._worker))

    def _is_trained(self) -> bool:
        try:
            return self.run.impatient.read(run_folder.TRAINING_DONE) is not None
        except (errors.PipelineError, OSError):
            return False

    def read_current_step(self) -> dict[str, Any] | None:
        """Returns what the others have recorded of their job step; `None` if none runs, or the file
        cannot be read now."""
        try:
            return self.run.impatient.read(agent.CLUSTER)
        except (errors.PipelineError, OSError):
            return None

    def is_wanted(self) -> bool:
        """True if the run goes on with so many workers."""
        record = run_record.read(self.run.impatient)
        if record is None:
            return True  # it cannot be read now
        if record.status != "running" or self._job_has_ended(record.job):
            return False
        is_counted = self._worker < record.topology.get(topology.WORKER, 0)
        self._was_counted |= is_counted
        is_early = not self._was_counted and time.monotonic() - self._began < _REQUEST
        return is_counted or is_early

    def _job_has_ended(self, job: str | None) -> bool:
        """Asks Slurm, now and then: a job that was killed has left no word."""
        now = time.monotonic()
        if job is not None and now - self._asked >= ASK_SLURM:
            self._asked = now
            try:
                self._has_ended = commands.state(job.removeprefix(commands.JOB))[0] in (
                    commands.ENDED
                )
            except errors.PipelineError:
                return False
        return self._has_ended

    def _take_part(self, current: Mapping[str, Any]) -> None:
        """Runs the process until it has done its part, or the others are started again."""
        host, port = self._address()
        members = {role: tuple(addresses) for role, addresses in current["cluster"].items()}
        workers = list(members[topology.WORKER])
        workers[self._worker] = f"{host}:{port}"
        members[topology.WORKER] = tuple(workers)
        self.run.write(path_of(self._worker), {"host": host, "port": port})
        print(f"{topology.WORKER}-{self._worker}: joins from {host}", flush=True)
        task = topology.Task(topology.WORKER, self._worker, members)
        _Worker(self, task, str(current["step"])).work()

    def _address(self) -> tuple[str, int]:
        """Returns the address of this node, and a port that is free there."""
        slurm = Slurm.of(self.run.read_config())
        lowest, highest = slurm.first_port, slurm.last_port
        for attempt in range(_TRIES):
            job = int(os.environ["SLURM_JOB_ID"])
            port = ranks.choose_first_port(job, attempt, 1, lowest=lowest, highest=highest)
            if not ports.is_taken(port):
                return steps.nodes_of(os.environ)[0].address, port
        raise errors.RetryableError(f"no free port from {lowest} to {highest} on this node")


def run_part(run: RunFolder, storage_root: str, worker: int) -> None:
    """Runs the job of a worker that joins. When its time is up, it goes into the queue again."""
    with StopRequest().install() as stop:
        joined = Joined(run, storage_root, worker, stop=stop)
        joined.work()
        number = os.environ["SLURM_JOB_ID"]
        again = stop.count and Slurm.of(run.read_config()).requeue and joined.is_wanted()
        if again and commands.state(number)[0] == "RUNNING":
            commands.ask("scontrol", "requeue", number)
            time.sleep(_END_BY_SLURM)
