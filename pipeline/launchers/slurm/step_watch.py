"""Watches the processes of a step, and ends the step once it can make no more progress."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.jobs.job import Job
from pipeline.launchers.slurm import agent, step_end
from pipeline.launchers.slurm.step_end import Action, StepEnd
from pipeline.runs import fatal, run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import watchdog


class StepWatch:
    """Follows one step of a job. `cause` is what it was ended for, if its processes hung."""

    def __init__(
        self,
        job: Job,
        number: str,
        process: subprocess.Popen[bytes],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        cluster = job.config.cluster
        self._run, self._clock = job.run, clock
        self._tasks = task_names(job.counts)
        self._unit = strategy_table.STRATEGIES[cluster.strategy].restart_unit
        self._limit = cluster.watchdog_seconds
        self._save_seconds = max(cluster.stop_seconds, self._limit)
        limits = watchdog.HangLimits(self._limit, cluster.watchdog_start_seconds)
        files = functools.partial(watchdog.checkpoint_files, job.run)
        self._watchdog = watchdog.Watchdog(limits, files)
        self._saving = watchdog.Saving(self._limit, files)
        self._end = StepEnd(
            process, number, seconds=step_end.seconds_per_action(cluster), clock=clock
        )
        # By process: its newest sign of life, and when it came by our clock.
        self._signs: dict[str, tuple[object, float]] = {}
        self._newest_sign = clock()
        self._listing = step_end.Listing(number, seconds=run_folder.silence(job.run), clock=clock)
        self.cause: str | None = None

    def stop(self) -> None:
        """Asks all processes to save and to end."""
        seconds = None if self._end.has_begun else self._save_seconds
        self._end.begin(Action.TERM, "asked to end: all processes save", seconds=seconds)

    def proceed(self) -> None:
        """Ends a step that should have ended by other means."""
        self._end.look()

    def look(self) -> None:
        """Begins to end a step in which a process has failed, or that makes no progress."""
        if find_fatal(self._run) is not None:
            self._end.begin(Action.TERM, "a process has failed for good: the others end too")
        statuses = run_folder.read_statuses(self._run)
        if self._saving.continues(statuses, self._clock()):
            self._end.postpone()
        if self._run.read(agent.LOST) is not None:
            self._end.begin(Action.WAIT)  # Slurm ends it, unless it does not learn of that
        elif self.cause is None:
            self.cause = self._find_hang(statuses) or self._find_loss(statuses)
            if self.cause is not None:
                self._end.begin(Action.KILL, f"{self.cause}: killing the processes of the step")

    def _find_hang(self, statuses: Mapping[str, Status]) -> str | None:
        training_over = self._run.read(run_folder.TRAINING_DONE) is not None
        wanted = () if training_over else topology.TRAINING_ROLES
        roles = (*wanted, topology.EVALUATOR)
        pids = {  # workers that have joined look after themselves
            name: statuses[name].pid
            for name in self._tasks
            if name.rpartition("-")[0] in roles
            and name in statuses
            and statuses[name].state not in run_folder.ENDED
        }
        hang = self._watchdog.look(statuses, pids, self._clock())
        return None if hang is None else hang.cause

    def _find_loss(self, statuses: Mapping[str, Status]) -> str | None:
        """Returns what says that tasks are gone of which srun has not learned, if anything does."""
        now = self._clock()
        self._note_signs(statuses, now)
        limit = max(self._limit, run_folder.silence(self._run))
        if self._unit == "gang" and self._run.read(run_folder.TRAINING_DONE) is None:
            for name, (_, since) in self._signs.items():
                if now - since >= limit and not _may_be_silent(name, statuses[name]):
                    return f"{name}: no sign of life for {now - since:.0f} s"
        silent = now - self._newest_sign
        if silent >= run_folder.silence(self._run) and self._is_unlisted():
            return "Slurm does not list the step any more, but srun waits for it"
        if self._signs and silent >= limit:
            return f"no process has given a sign of life for {silent:.0f} s"
        return None

    def _note_signs(self, statuses: Mapping[str, Status], now: float) -> None:
        before, self._signs = self._signs, {}
        for name in self._tasks:
            if name not in statuses:
                continue
            status = statuses[name]
            sign = (status.pid, status.state, status.time, status.seen)
            known = before.get(name)
            if known is None or known[0] != sign:
                known, self._newest_sign = (sign, now), now
            self._signs[name] = known

    def _is_unlisted(self) -> bool:
        """Tells if Slurm says that a step that has begun is over. It is asked now and then."""
        return self._run.read(agent.CLUSTER) is not None and self._listing.is_empty()


def _may_be_silent(name: str, status: Status) -> bool:
    return name.rpartition("-")[0] == topology.EVALUATOR or status.state in run_folder.ENDED


def task_names(counts: Mapping[str, int]) -> list[str]:
    """Returns the names of the tasks of a step."""
    return [f"{role}-{i}" for role in topology.ROLES for i in range(counts.get(role, 0))]


def find_fatal(run: RunFolder) -> dict[str, Any] | None:
    """Returns what a process of this submission has left that has failed for good."""
    found = run.read(fatal.MARKER)
    ours = found is not None and found["submission"] == os.environ.get(fatal.SUBMISSION)
    return found if ours else None
