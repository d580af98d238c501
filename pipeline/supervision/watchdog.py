"""Finds processes that hang: alive, but without progress. Pure: time and statuses are passed in.

A stopped process, a host that has vanished or a collective operation that waits for a peer looks
like nothing at all from outside: no exit code, no error, only no next step
(docs/tensorflow-pitfalls.md#lost-parameter-server, #lost-worker-of-an-all-reduce).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping

from pipeline import storage
from pipeline.cluster import topology
from pipeline.runs.run_folder import STARTING, WAITING, RunFolder, Status

# Variable of a process that need not watch itself, since the one that started it does.
WATCHED = "PIPELINE_WATCHED"


@dataclasses.dataclass(frozen=True)
class HangLimits:
    """Seconds without progress that are taken for a hang: between two steps, and wherever
    progress comes in larger pieces, as before the first step, in a save or in an export. `others`
    is for how long a process may wait before its first step for those that a place has yet to
    start; it only makes that limit longer."""

    step: float = 120.0
    start: float = 900.0
    others: float = 0.0


@dataclasses.dataclass(frozen=True)
class Hang:
    """What was found. `name` is the task that hangs, or `None` if training as a whole does."""

    name: str | None
    cause: str


@dataclasses.dataclass
class _Sign:
    """The last sign of life, when it came, how long it may last, whether the process has made a
    step, and whether it waits for records of others."""

    word: Hashable
    since: float
    limit: float
    stepped: bool = False
    waits: bool = False


# A single process gets this times the limit: when all hang together, their last reports still come
# at different times, and training as a whole must be found first.
_ALONE = 1.5
# From this share of the limit on, checkpoint files are looked at too.
_HALF = 0.5


class Watchdog:
    """Remembers the last progress of each process.

    `files` returns what changes while a checkpoint is written. It is asked only when a process
    has been silent for half of its limit: writing a large one is progress too.
    """

    def __init__(self, limits: HangLimits, files: Callable[[], Hashable]) -> None:
        self._limits, self._files = limits, files
        self._signs: dict[str, _Sign] = {}
        self._written: Hashable = None
        self._asked = False

    def look(
        self, statuses: Mapping[str, Status], pids: Mapping[str, int], now: float
    ) -> Hang | None:
        """Returns what hangs, if anything does.

        `statuses` are the newest words, `pids` the processes that should make progress. After a
        hang was returned all have their full time again.
        """
        self._signs = {name: sign for name, sign in self._signs.items() if name in pids}
        for name, pid in pids.items():
            self._note(name, pid, statuses.get(name), now=now)
        training = {n: s for n, s in self._signs.items() if _trains(n)}
        self._look_at_files(training, now)
        hang = self._find_training_hang(training, now) or self._find_silent_process(now)
        if hang is None or (self._may_wait(hang, training, now) and self._writes(now, training)):
            return None
        self._signs.clear()
        self._asked = False
        return hang

    def _note(self, name: str, pid: int, status: Status | None, *, now: float) -> None:
        word = (pid, _read_progress(status))
        known = self._signs.get(name)
        if known is None or known.word != word:
            stepped = status is not None and status.has_stepped
            self._signs[name] = _Sign(word, now, self._limit(status), stepped, _waits(status))

    def _limit(self, status: Status | None) -> float:
        if status is None or _may_wait_for_others(status):
            return max(self._limits.start, self._limits.others)
        if status.work is not None and not status.work["done"]:
            return self._limits.start  # nothing is known yet of how long a piece of it takes
        steps = status.state in ("training", "evaluating")
        return self._limits.step if steps else self._limits.start

    def _look_at_files(self, training: Mapping[str, _Sign], now: float) -> None:
        """Remembers how they are once some process has been silent for half of its limit."""
        silent = any(now - sign.since >= sign.limit * _HALF for sign in training.values())
        if silent and not self._asked:
            self._written = self._files()
        self._asked = silent

    def _find_training_hang(self, training: Mapping[str, _Sign], now: float) -> Hang | None:
        """Training hangs when no process of it has made progress; one alone, if the others wait
        for it."""
        if not training:
            return None
        newest = max(training.values(), key=lambda sign: sign.since)
        limit = min(sign.limit for sign in self._raise_limits(training).values())
        silent = now - newest.since
        if silent < limit:
            return None
        what = "step" if any(sign.stepped for sign in training.values()) else "first step"
        busy = {name: sign for name, sign in training.items() if not sign.waits}
        if not busy or len(busy) == len(training):
            return Hang(None, f"no {what} for {silent:.0f} s")
        # The others say that they wait for those: the one that has been silent longest hangs.
        name = min(busy, key=lambda task: busy[task].since)
        return Hang(name, f"no {what} for {now - busy[name].since:.0f} s, and the others wait")

    def _find_silent_process(self, now: float) -> Hang | None:
        for name, sign in self._raise_limits(self._signs).items():
            if now - sign.since >= sign.limit * _ALONE:
                return Hang(name, f"no sign of life for {now - sign.since:.0f} s")
        return None

    def _raise_limits(self, signs: Mapping[str, _Sign]) -> dict[str, _Sign]:
        """Returns the signs with the limit of each that trains at least the chief's: the others
        wait while it restores, saves or evaluates."""
        chief = self._signs.get(f"{topology.CHIEF}-0")
        least = chief.limit if chief else 0.0
        return {
            name: dataclasses.replace(sign, limit=max(sign.limit, least)) if _trains(name) else sign
            for name, sign in signs.items()
        }

    def _may_wait(self, hang: Hang, training: Mapping[str, _Sign], now: float) -> bool:
        """Tells if what hangs may be writing a checkpoint, or waiting for that: the chief writes
        it, and all wait where one makes no step without the others."""
        others = [sign for name, sign in training.items() if name != hang.name]
        at_work = any(now - sign.since < sign.limit * _HALF for sign in others)
        return hang.name in (None, f"{topology.CHIEF}-0") or not at_work

    def _writes(self, now: float, training: Mapping[str, _Sign]) -> bool:
        """True if checkpoint files have changed since they were last looked at; that counts as
        progress of all that train."""
        before, self._written = self._written, self._files()
        if not training or before == self._written:
            return False
        for sign in training.values():
            sign.since = now
        return True


class Saving:
    """Tells whether a save that processes report makes progress, while they are to end."""

    def __init__(self, limit: float, files: Callable[[], Hashable]) -> None:
        """`limit` is for how many seconds one may stand still."""
        self._limit, self._files = limit, files
        self._sign: Hashable = None
        self._since = 0.0

    def continues(self, statuses: Mapping[str, Status], now: float) -> bool:
        """Returns true if a training process of `statuses` saves, and has not stood still."""
        saving = [(n, s.time) for n, s in statuses.items() if _trains(n) and s.is_saving]
        sign = (tuple(saving), self._files() if saving else None)
        if sign != self._sign:
            self._sign, self._since = sign, now
        return bool(saving) and now - self._since < self._limit


def _trains(name: str) -> bool:
    return name.rpartition("-")[0] in topology.TRAINING_ROLES


def _may_wait_for_others(status: Status) -> bool:
    """True before the first step, except in a save: it needs processes that are there."""
    begins = status.state in (*STARTING, "training") and not status.has_stepped
    return begins and not status.is_saving


def _waits(status: Status | None) -> bool:
    return status is not None and status.work is not None and status.work["what"] == WAITING


def _read_progress(status: Status | None) -> Hashable:
    """What must change: how much is done of a piece of work, or the step; a process that counts
    neither has to report something."""
    if status is None:
        return None
    if status.work is not None:
        return (status.state, *status.work.values())
    return (status.state, status.step if status.state == "training" else status.time)


def checkpoint_files(run: RunFolder) -> Hashable:
    """Returns names, and on a disk sizes and times, of what checkpoints of a run consist of."""
    names = [n for n in storage.listdir(run.path) if n.startswith("model.ckpt")]
    if storage.is_remote(run.path):
        return tuple(names)
    found = []
    for name in names:
        path = storage.join(run.path, name)
        # A save in progress is a folder of parts.
        for part in [path, *(storage.join(path, inner) for inner in storage.listdir(path))]:
            try:
                found.append((part, storage.size(part), storage.get_modified_time(part)))
            except OSError:
                continue  # renamed or removed meanwhile, which the next look shows
    return tuple(found)


def is_stopped(pid: int) -> bool:
    """True if the process was stopped by a signal; only Linux can tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False
