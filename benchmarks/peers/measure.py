"""What every peer's program measures alike. Needs Python and NumPy only: peers' environments have
neither this project nor each other.

A program is run as `python -m benchmarks.peers.<suite>.<name> settings.json`, and prints its
result, an object of JSON, as its last line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

# The process whose time and whose descendants' time count. The launcher hands on variables of some
# kinds only; PYTHON… is one.
ROOT = "PYTHON_BENCH_PEERS_ROOT"


def read_settings() -> dict[str, Any]:
    """Returns the settings that the driver has given."""
    found: dict[str, Any] = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    return found


def read_sizes() -> list[int]:
    """Returns the numbers that the driver has given as argument, such as `2,1`."""
    return [int(number) for number in sys.argv[2].split(",")]


def report(**result: Any) -> None:
    """Prints the result."""
    print(json.dumps(result), flush=True)


def read_processor_seconds() -> float:
    """Returns what the program and all its descendants have used, with those that have ended."""
    ticks = 0
    stats = dict(_read_stats())
    root = int(os.environ.get(ROOT) or os.getpid())
    for pid in stats:
        above = pid
        while above in stats and above != root:
            above = stats[above][0]
        if above == root:
            ticks += stats[pid][1]
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_stats():
    """Yields each process: its number, its parent's, and its ticks with those of dead children."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        yield int(path.parent.name), (int(fields[1]), sum(map(int, fields[11:15])))


@dataclasses.dataclass(frozen=True)
class Mark:
    """A moment of training."""

    step: int
    time: float
    cpu: float


def take_mark(step: int) -> Mark:
    """Returns this moment."""
    return Mark(step, time.time(), read_processor_seconds())


class Meter:
    """Measures from the end of step `warm_up` to the end of the last."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._batch, self._warm_up, self._steps = (
            given[name] for name in ("batch_size", "warm_up", "steps")
        )
        self._step = 0
        self._marks: list[Mark] = []

    def step(self) -> None:
        """Is called after each step."""
        self._step += 1
        if self._step in (self._warm_up, self._steps):
            self._marks.append(take_mark(self._step))

    def result(self) -> dict[str, float]:
        """Returns examples/s, and processor seconds for 1,000 examples."""
        return compute_rates(*self._marks, self._batch)


def compute_rates(first: Mark, last: Mark, batch_size: int) -> dict[str, float]:
    """Returns examples/s, and processor seconds for 1,000 examples, between two moments."""
    examples = (last.step - first.step) * batch_size
    return {
        "rate": examples / (last.time - first.time),
        "cpu": 1000 * (last.cpu - first.cpu) / examples,
    }


def time_work(work: Callable[[], int]) -> dict[str, float]:
    """Returns the same of work that returns how many examples it was on."""
    began = take_mark(0)
    examples = work()
    return compute_rates(began, take_mark(examples), 1)


def compute_auc(label: Any, score: Any) -> float:
    """Returns the area under the ROC curve by ranks, those of equal scores shared (Mann and
    Whitney, 1947)."""
    import numpy as np

    label, score = np.asarray(label).ravel().astype(bool), np.asarray(score).ravel()
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    hits = int(label.sum())
    return float((rank[label].sum() - hits * (hits + 1) / 2) / (hits * (len(label) - hits)))
