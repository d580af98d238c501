"""Ends a step with bounded patience, whether or not its srun learns that the tasks have ended.

A node tells srun once that a task has ended. If munge or the network is away at that moment, srun
waits for ever, and no signal can reach a step that Slurm does not list any more.
"""

from __future__ import annotations

import contextlib
import enum
import subprocess
import time
from collections.abc import Callable

from pipeline import config, errors
from pipeline.launchers.slurm import commands

# Four actions that end a step, with this share of `cluster.watchdog_seconds` for each of them, but
# at most so many seconds.
_SHARE, MOST = 0.25, 30.0
# How often steps that are left over are killed, and seconds in between.
_ENDINGS, _BETWEEN = 100, 3.0


class Action(enum.IntEnum):
    """What is done to end a step, from the mildest on; first it may end by itself."""

    WAIT = 0
    TERM = 1
    KILL = 2
    TERMINATE_SRUN = 3
    KILL_SRUN = 4


_LINES = {
    Action.TERM: "the step has not ended: its processes are asked to end",
    Action.KILL: "the step has not ended: killing its processes",
    Action.TERMINATE_SRUN: "srun still waits for the step: terminating srun",
    Action.KILL_SRUN: "srun has not ended: killing it",
}


class StepEnd:
    """Ends the step of a job that `process`, its srun, waits for: one action after the other."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        job: str,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """There are `seconds` between two actions."""
        self._process, self._job, self._seconds, self._clock = process, job, seconds, clock
        self._action: Action | None = None
        self._deadline = 0.0
        self._is_sent = True

    @property
    def has_begun(self) -> bool:
        """True if the step should end."""
        return self._action is not None

    def begin(self, action: Action, line: str = "", *, seconds: float | None = None) -> None:
        """Begins with an action, of which `line` says why, unless that was done already. The next
        one follows after `seconds`, if the step has not ended, or sooner if it was to."""
        is_new = self._action is None or action > self._action
        if is_new:
            self._act(action, line)
        deadline = self._clock() + (self._seconds if seconds is None else seconds)
        self._deadline = deadline if is_new else min(self._deadline, deadline)

    def postpone(self) -> None:
        """Leaves a step that was asked to end the usual time from now on: its processes save."""
        if self._action is Action.TERM:
            self._deadline = max(self._deadline, self._clock() + self._seconds)

    def look(self) -> None:
        """Does what is due."""
        if not self._is_sent:  # the controller did not answer
            self._send()
        if self._action is None or self._clock() < self._deadline:
            return
        if self._action is Action.KILL_SRUN:
            return
        following = Action(self._action + 1)
        self._act(following, _LINES[following])
        self._deadline = self._clock() + self._seconds

    def _act(self, action: Action, line: str) -> None:
        self._action = action
        if line:
            print(line, flush=True)
        if action is Action.TERMINATE_SRUN:
            self._process.terminate()
        elif action is Action.KILL_SRUN:
            self._process.kill()
        self._send()

    def _send(self) -> None:
        if self._action in (Action.TERM, Action.KILL):
            self._is_sent = signal_step(self._job, self._action.name)
        else:
            self._is_sent = True


class Listing:
    """Asks Slurm every `seconds`, and not before, whether it lists a step of a job."""

    def __init__(
        self, job: str, *, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job, self._seconds, self._clock = job, seconds, clock
        self._asked = clock()

    def is_empty(self) -> bool:
        """True if Slurm was asked now, and answered that no step is left."""
        if self._clock() - self._asked < self._seconds:
            return False
        self._asked = self._clock()
        try:
            return not list_steps(self._job)
        except errors.PipelineError:
            return False


def seconds_per_action(cluster: config.Cluster) -> float:
    """Returns the seconds between two actions that end a step."""
    return min(MOST, _SHARE * cluster.watchdog_seconds)


def list_steps(job: str) -> list[str]:
    """Returns the numbers of the steps of a job that Slurm has not seen the end of. Raises what
    `commands.ask` does."""
    said = commands.ask("squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i")
    return [step for step in said.split() if step.rpartition(".")[2].isdigit()]


def signal_step(job: str, name: str) -> bool:
    """Sends a signal such as `TERM` to all tasks of the steps of a job; there may be none. Returns
    false if the controller does not answer."""
    try:
        # By the numbers of the steps: KILL for a job is taken for its cancelling.
        found = list_steps(job)
        if found:
            commands.ask("scancel", f"--signal={name}", *found)
    except errors.PipelineError:
        return False
    return True


def end_left_over(job: str, *, wait: Callable[[float], object] = time.sleep) -> None:
    """Returns when no step of a job is left. One whose srun was killed while the controller did not
    answer keeps its processors, and its tasks run on; it is killed. A node that is lost is waited
    for in vain: then it is up to the next step."""
    for _ in range(_ENDINGS):
        with contextlib.suppress(errors.PipelineError):
            found = list_steps(job)
            if not found:
                return
            commands.ask("scancel", "--signal=KILL", *found)
        wait(_BETWEEN)
