"""Ends a step with bounded patience, whether or not its srun learns that the tasks have ended.

A node tells srun once that a task has ended. If munge or the network is away at that moment, srun
waits for ever, and no signal can reach a step that Slurm does not list any more.
"""

from __future__ import annotations

import enum
import subprocess
import time
from collections.abc import Callable

from pipeline.launchers.slurm import steps


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
            self._is_sent = steps.signal_step(self._job, self._action.name)
        else:
            self._is_sent = True
