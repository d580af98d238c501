"""How much of the time of a run was useful, and what became of the rest.

Goodput is the examples that survive into the newest checkpoint times the best sustained time per
example, over wall time times processes. What a process did is in its account, and the time between
two accounts of a process, or before and after them, has a cause by where it lies. Every second of
every process is put to one cause, and none to two, so the parts add up to the whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from pipeline.runs.accounts import Account

USEFUL = "useful"
WHAT = {
    USEFUL: "examples that the newest checkpoint has, at the best sustained time per example",
    "start-up": "from the start of the command, or of a worker that joins, to the first step",
    "input": "steps that wait for their batch",
    "exchange": "parameters and gradients on their way, not hidden behind computation",
    "waiting for others": "steps that wait for slower processes, and for their last records",
    "saving": "checkpoints, of the processes that wait for them",
    "evaluation": "between steps, in the process that trains",
    "lost work": "examples that were trained on again, or that no checkpoint has",
    "recovery": "from a loss to the next step",
    "stopped": "the whole process stood still, as after SIGSTOP",
    "slower steps": "steps and hooks that took longer than the best sustained time",
    "end": "after the last step, or a failure: the last checkpoint, evaluation and export",
}
# Clocks of hosts may differ by so many seconds.
_SKEW = 5.0


@dataclasses.dataclass(frozen=True)
class LaunchPeriod:
    """A period in which some tasks of a run were to train, in Unix time: a launch, or for workers
    that joined later or left earlier a part of one. They were `lost` if the end of what they have
    written was a loss from which they did not recover."""

    began: float
    ended: float
    tasks: Sequence[str]
    lost: bool = False


@dataclasses.dataclass(frozen=True)
class CauseShare:
    """Process seconds that went to one cause."""

    name: str
    seconds: float
    share: float
    what: str


def split(
    launches: Sequence[LaunchPeriod],
    accounts: Iterable[Account],
    *,
    survived: float,
    synchronous: bool,
    alone: bool = False,
) -> list[CauseShare]:
    """Returns the whole time of all launches in parts that add up to it: see `divide`."""
    return parts(divide(launches, accounts, survived, synchronous=synchronous, alone=alone))


def parts(times: Mapping[str, Mapping[str, float]]) -> list[CauseShare]:
    """Returns the times of all tasks as parts of the whole, in the order of `WHAT`."""
    sums = {name: sum(of[name] for of in times.values()) for name in WHAT}
    whole = sum(sums.values())
    return [
        CauseShare(name, seconds, seconds / whole if whole else 0.0, WHAT[name])
        for name, seconds in sums.items()
    ]


def divide(
    launches: Sequence[LaunchPeriod],
    accounts: Iterable[Account],
    survived: float,
    *,
    synchronous: bool,
    alone: bool = False,
) -> dict[str, dict[str, float]]:
    """Returns the seconds of each task by cause; they add up to its time in all launches.

    `survived` are the examples that the newest checkpoint has. `synchronous` processes make each
    step together, so all wait for what one of them does. A process that is `alone` exchanges
    nothing; if a step of others stalls while they run, it waits for another process.
    """
    tasks: dict[str, _Task] = {}
    known = sorted(accounts, key=lambda one: one.began)
    for name in dict.fromkeys(task for launch in launches for task in launch.tasks):
        periods = [one for one in launches if name in one.tasks]
        own = [one for one in known if one.task == name]
        number_of = [_find_period(one, periods) for one in own]
        tasks[name] = _Task(alone)
        for number, period in enumerate(periods):
            pairs = zip(own, number_of, strict=True)
            tasks[name].add(period, [one for one, of in pairs if of == number])
    _divide_work(tasks, survived)
    if synchronous and len(tasks) > 1:
        _share_saves(tasks)
        _share_input(tasks)
        _find_waiting(tasks)
    return {name: task.seconds for name, task in tasks.items()}


def _find_period(account: Account, periods: Sequence[LaunchPeriod]) -> int:
    """Returns the index of the newest period that had begun when a process was started."""
    begun = [n for n, one in enumerate(periods) if one.began - _SKEW <= account.began]
    return max(begun, default=0)


class _Task:
    """The time of one task, over all its processes and launches."""

    def __init__(self, alone: bool) -> None:
        self._causes = {**_CAUSES, "stalled": _WORK if alone else "exchange"}
        self.seconds = dict.fromkeys(WHAT, 0.0)
        self.work = 0.0  # steps and hooks between them, which is divided later
        # Seconds of saves that others wait for in the middle of a step, and of stalled steps.
        self.states = dict.fromkeys(("saving", "stalled"), 0.0)
        self.examples = self.timed = 0
        self.best: list[float] = []
        self.late = 0.0  # seconds of exchange in which its own next batch was late

    def add(self, period: LaunchPeriod, own: Sequence[Account]) -> None:
        """Adds what it did in a period, with its `own` accounts in that: all its seconds."""
        left = max(0.0, period.ended - period.began)
        begins, cursor = "start-up", period.began
        rest = begins
        for account in own:
            left -= self._take(begins, min(left, account.began - cursor))
            for state, seconds in account.seconds.items():
                taken = self._take(self._cause(state, begins), min(left, seconds))
                if state in self.states:
                    self.states[state] += taken
                left -= taken
            self.examples += account.examples
            self.timed += account.timed
            self.best += [account.best] if account.best is not None else []
            self.late += max(0.0, account.late)
            begins, cursor = "recovery", account.until
            rest = "recovery" if period.lost and not account.ended else "end"
        self._take(rest, left)

    def _take(self, cause: str, seconds: float) -> float:
        seconds = max(0.0, seconds)
        if cause == _WORK:
            self.work += seconds
        else:
            self.seconds[cause] += seconds
        return seconds

    def _cause(self, state: str, begins: str) -> str:
        return begins if state == "start" else self._causes.get(state, state)


_WORK = "work"
_CAUSES = {
    "step": _WORK,
    "between": _WORK,
    "waiting": "waiting for others",
    "first save": "saving",
}


def _divide_work(tasks: Mapping[str, _Task], survived: float) -> None:
    """Divides the time of steps: useful, lost, slower than the best."""
    pace = _find_best_pace(tasks.values())
    made = sum(task.examples for task in tasks.values())
    share = min(1.0, max(0.0, survived) / made) if made > 0 else 0.0
    for task in tasks.values():
        # The first step after a start is a part of that, and is as useful as the others.
        first = pace * max(0, task.examples - task.timed)
        for cause in ("start-up", "recovery"):
            moved = min(task.seconds[cause], first)
            task.seconds[cause] -= moved
            task.work += moved
            first -= moved
        ideal = min(task.work, pace * max(0, task.examples))
        task.seconds[USEFUL] += share * ideal
        task.seconds["lost work"] += (1 - share) * ideal
        task.seconds["slower steps"] += task.work - ideal


def _find_best_pace(tasks: Iterable[_Task]) -> float:
    """Returns the best sustained seconds of work per example; of a run that was too short for one
    the average of its fastest process."""
    tasks = list(tasks)
    kept = [pace for task in tasks for pace in task.best if pace > 0]
    averages = [task.work / task.timed for task in tasks if task.timed > 0 and task.work > 0]
    return min(kept or averages, default=0.0)


def _share_saves(tasks: Mapping[str, _Task]) -> None:
    """While one process saves the others stand in the middle of a step, or in a save of theirs.
    That step stalls, or is slower if the save is short."""
    longest = max(task.states["saving"] for task in tasks.values())
    for task in tasks.values():
        left = longest - task.states["saving"]
        stalled = task.states["stalled"]
        for cause, most in (("exchange", stalled), ("slower steps", left), ("exchange", left)):
            moved = min(task.seconds[cause], most, left)
            left -= moved
            task.seconds[cause] -= moved
            task.seconds["saving"] += moved


def _share_input(tasks: Mapping[str, _Task]) -> None:
    """While a process waits for others its own next batch is made. If that is late, too, without
    the others the process would have waited for that as long."""
    for task in tasks.values():
        moved = min(task.seconds["exchange"], task.late)
        task.seconds["exchange"] -= moved
        task.seconds["input"] += moved


def _find_waiting(tasks: Mapping[str, _Task]) -> None:
    """What a process exchanges for longer than the one that does so for the shortest time is
    waiting: that one is the slowest, for which the others wait."""
    trained = [task for task in tasks.values() if task.timed > 0]
    least = min((task.seconds["exchange"] / task.timed for task in trained), default=0.0)
    for task in trained:
        moved = max(0.0, task.seconds["exchange"] - least * task.timed)
        task.seconds["exchange"] -= moved
        task.seconds["waiting for others"] += moved
