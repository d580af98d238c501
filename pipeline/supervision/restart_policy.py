"""What to do when a process of a run is lost, and what each loss cost. Pure: time is passed in."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Literal

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs.run_folder import ENDED, STARTING, Status
from pipeline.runs.run_record import Restart

_CHIEF = f"{topology.CHIEF}-0"
# All that train, as what is started again.
_GANG = "gang"
# What TensorFlow's server and the system say when a port is taken.
_PORT_TAKEN = ("could not start grpc server", "address already in use", "address in use")
# Exceptions that come of other processes, of the network and of storage, by how a cause begins.
_OF_TENSORFLOW = (
    "Aborted|Cancelled|DeadlineExceeded|FailedPrecondition|Internal|ResourceExhausted|Unavailable"
    "|Unknown"
)
_OF_PYTHON = r"OS|Timeout|Connection\w*|BrokenPipe|EOF"
_OF_OTHERS = re.compile(rf"(?:\w+\.)*(?:{_OF_TENSORFLOW}|{_OF_PYTHON})Error\b")
# How a cause begins that names an exception, which is not just what a process ended with.
_EXCEPTION = re.compile(r"(?:\w+\.)*[A-Z]\w*(?::|$)")
# The exit code of Python after an exception that nothing has caught.
_UNCAUGHT = 1


@dataclasses.dataclass(frozen=True)
class Loss:
    """A process that ended unexpectedly.

    `code` is its exit code, or minus the number of the signal that killed it; `worked` is true if
    it had made steps (or evaluated) before, `stalled` if it was killed because training as a whole
    made no progress. `reached` is the newest step it made since it was started, `None` if none; of
    what makes no steps itself, that of the run. If it failed while `evaluating`, as an evaluator
    or a chief without one, `reached` is the step it evaluated last.
    """

    task: topology.Task
    code: int
    cause: str
    worked: bool
    stalled: bool = False
    reached: int | None = None
    evaluating: bool = False

    @property
    def port_taken(self) -> bool:
        """True if another program listens on the port of this process."""
        return any(words in self.cause.lower() for words in _PORT_TAKEN)

    @property
    def is_bug(self) -> bool:
        """True if an exception ended it that other processes have no part in."""
        if self.code != _UNCAUGHT or self.port_taken or _OF_OTHERS.match(self.cause):
            return False
        return self.reached is not None or _EXCEPTION.match(self.cause) is not None


@dataclasses.dataclass(frozen=True)
class Decision:
    """What happens next: `task` starts that one again, `gang` all but the evaluator on new
    ports, `fail` ends the run with `code`; the `note` says why, besides the cause."""

    action: Literal["task", "gang", "fail"]
    delay: float = 0.0
    code: int = 0
    note: str = ""


class Policy:
    """Decides about losses: attempts are bounded by progress, with growing pauses between them.

    At most `most` restarts in a row bring nothing new: no step (of the evaluator, no evaluation)
    after the newest there was. What fails by itself at the same place ends the run by that; what is
    killed from outside now and then does not. The same exception twice in a row, without a new step
    in between (in evaluations, without a new one), comes of the code or the data: the run ends by
    the second. Any error before a step was made will most likely come again: it is tried once more
    only.
    """

    def __init__(
        self,
        unit: Literal["task", "gang"],
        *,
        most: int = 10,
        window: float = 600.0,
        delays: tuple[float, ...] = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0),
        most_port_changes: int = 3,
        any_code: bool = False,
    ) -> None:
        """A pause is chosen by how many restarts there were within `window` seconds. A run ends
        with a code that commands have; with `any_code` it may be any that a process ended with."""
        self.unit = unit
        self._most, self._window, self._delays = most, window, delays
        self._most_port_changes = most_port_changes
        self._any_code = any_code
        self._restarts: dict[str, list[float]] = collections.defaultdict(list)
        # By what is started again: how far it is, in steps and in evaluations, and its restarts
        # since it has got there.
        self._reached: dict[tuple[str, bool], int] = {}
        self._idle: collections.Counter[str] = collections.Counter()
        self._useless: collections.Counter[str] = collections.Counter()
        # By task: the exception that ended it last, if one did.
        self._bugs: dict[str, str] = {}
        self._port_changes = 0

    def decide(self, loss: Loss, now: float) -> Decision:
        """Returns what to do about `loss`, and counts it."""
        if loss.code in errors.FINAL_CODES:
            return Decision("fail", code=loss.code)
        name = self._name_restarted(loss)
        went_on = self._note_progress(name, loss)
        if self._comes_again(loss) and not went_on:
            note = (
                f"the same error twice in a row, {_describe_place(loss)}: fix the cause, then run"
            )
            note = f"{note} the same command to resume"
            return Decision("fail", code=errors.ModelError.exit_code, note=note)
        if loss.port_taken:
            self._port_changes += 1
            if self._port_changes > self._most_port_changes:
                return Decision("fail", code=errors.RetryableError.exit_code)
            return Decision("gang")
        task = loss.task.name
        from_outside = loss.code <= 0 or loss.code == errors.RetryableError.exit_code
        self._useless[task] = 0 if loss.worked or from_outside else self._useless[task] + 1
        if self._useless[task] > 1 or self._idle[name] >= self._most:
            by_itself = loss.code if self._any_code else _UNCAUGHT
            what = "evaluation" if loss.evaluating else "step"
            note = f"{self._idle[name]} restarts in a row brought no new {what}"
            return Decision(
                "fail",
                code=errors.RetryableError.exit_code if from_outside else by_itself,
                note=note if self._idle[name] >= self._most else "",
            )
        self._idle[name] += 1
        recent = [time for time in self._restarts[name] if now - time < self._window]
        self._restarts[name] = [*recent, now]
        delay = self._delays[min(len(recent), len(self._delays) - 1)]
        return Decision("gang" if name == _GANG else "task", delay=delay)

    def _name_restarted(self, loss: Loss) -> str:
        """Returns the task that is started again, or the name of all that train."""
        if loss.task.job_name == topology.EVALUATOR:
            return loss.task.name
        return _GANG if loss.stalled or self.unit == "gang" else loss.task.name

    def _note_progress(self, name: str, loss: Loss) -> bool:
        """Returns whether there were new steps (evaluations) before `loss`."""
        key = name, loss.evaluating
        if loss.reached is None or loss.reached <= self._reached.get(key, -1):
            return False
        self._reached[key] = loss.reached
        self._idle[name] = 0
        self._port_changes = 0
        return True

    def _comes_again(self, loss: Loss) -> bool:
        """Returns whether a task ends by the exception that ended it before."""
        task = loss.task.name
        before = self._bugs.pop(task, None)
        if loss.is_bug:
            self._bugs[task] = loss.cause
        return before is not None and before == self._bugs.get(task)


def _describe_place(loss: Loss) -> str:
    if loss.evaluating:
        return "without a new evaluation in between"
    if loss.reached is None:
        return "before its first step"
    return f"without progress beyond step {loss.reached}"


class Recovery:
    """Watches one restart until the process, or the training that hung on it, continues.

    A training process shows its own recovery (its loss, once it has made a step), an evaluator too:
    it looks for checkpoints again. After the loss of a parameter server, or of a whole `gang`, all
    processes that train have to make a step again, and the slowest counts. Steps are lost if the
    chief says that it has continued from a checkpoint since (`Status.continued`): those from there
    to the highest that was reported before.
    """

    def __init__(
        self,
        restart: Restart,
        *,
        wall_time: float,
        known: Mapping[str, Status],
        gang: bool = False,
    ) -> None:
        """`known` has the statuses of the processes when one was lost, at `wall_time`."""
        self.restart = restart
        self._since, self._known = wall_time, dict(known)
        self._own = f"{restart.role}-{restart.index}"
        self._of_all = gang or restart.role == topology.PS
        # The chief and the parameter servers take the global step back with them.
        self._falls_back = self._of_all or restart.role == topology.CHIEF
        self._chief = known.get(_CHIEF)
        self._highest, self._continued = restart.step or 0, math.inf
        # By process: the lowest step it has reported since, and when it had made its first one.
        self._lowest: dict[str, int] = {}
        self._back: dict[str, float] = {}

    def see(self, statuses: Mapping[str, Status]) -> bool:
        """Updates from the statuses of the processes; returns true once the restart is complete."""
        self.note_steps(statuses)
        new = {
            name: status
            for name, status in statuses.items()
            if status.time > self._since and not _is_same(status, self._known.get(name))
        }
        if self.restart.role == topology.EVALUATOR:
            own = new.get(self._own)
            return own is not None and own.state not in STARTING and self._finish(own.time, lost=0)
        waited_for = self._find_waited_for(statuses)
        for name in waited_for & new.keys() - self._back.keys():
            self._see_one(name, new[name])
        if not waited_for <= self._back.keys():
            return False
        lost = max(0, self._highest - self._continued) if self._falls_back else 0
        return self._finish(max(self._back.values()), lost=int(lost))

    def note_steps(self, statuses: Mapping[str, Status]) -> None:
        """Notes the steps that were reached, and the one that the chief has continued from."""
        chief = statuses.get(_CHIEF)
        found = _find_continuation(self._chief, chief)
        if chief is not None and chief.step is not None:
            self._chief = chief
        if self._continued == math.inf:
            # What is reported later than that comes of it.
            until = math.inf if found is None else found["time"]
            reached = [
                status.step
                for name, status in statuses.items()
                if name.rpartition("-")[0] in topology.TRAINING_ROLES
                and status.step is not None
                and status.time < until
            ]
            self._highest = max([self._highest, *reached])
        if found is not None:
            self._continued = min(self._continued, found["step"])

    def _find_waited_for(self, statuses: Mapping[str, Status]) -> set[str]:
        if not self._of_all:
            return {self._own}
        return {_CHIEF} | {
            name
            for name, status in statuses.items()
            if name.rpartition("-")[0] in topology.TRAINING_ROLES
            and (status.state not in ENDED or status.time > self._since)
        }

    def _see_one(self, name: str, status: Status) -> None:
        if status.state not in ("training", "done") or status.step is None:
            return
        lowest = self._lowest[name] = min(self._lowest.get(name, status.step), status.step)
        goes_on = status.has_stepped
        if self.restart.role == topology.PS:
            goes_on = status.step > lowest
        if goes_on or status.state == "done":
            self._back[name] = status.time

    def _finish(self, time: float, *, lost: int) -> bool:
        self.restart.steps_lost = lost
        self.restart.seconds_to_next_step = round(time - self._since, 3)
        return True


def _is_same(status: Status, known: Status | None) -> bool:
    """True if a status is the known one, but for signs of life."""
    return known is not None and (known.pid, known.time) == (status.pid, status.time)


def _find_continuation(before: Status | None, chief: Status | None) -> Mapping[str, float] | None:
    """Returns the step that the chief has continued from, and when, if it has between two reports.
    Of a script, which does not say so, a step that is lower tells."""
    if chief is None:
        return None
    if chief.continued is not None:
        same = before is not None and (before.pid, before.continued) == (chief.pid, chief.continued)
        return None if same else chief.continued
    if before is None or before.step is None or chief.step is None or chief.step >= before.step:
        return None
    return {"step": chief.step, "time": chief.time}
