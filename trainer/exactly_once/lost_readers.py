"""Which readers of a cluster have not been seen for so long that others do their work."""

from __future__ import annotations

import math

import numpy as np

from pipeline import config


class LeaseTimeouts:
    """Tells, from how many records each reader has applied, which of them are lost.

    A reader is lost when it has applied none for `cluster.watchdog_seconds`; before its first, for
    `cluster.watchdog_start_seconds`. Where there is a launcher, that has started it again by then.
    Times are of one clock, in seconds.
    """

    def __init__(self, cluster: config.Cluster, applied: np.ndarray, now: float) -> None:
        """`applied` is `[readers]`, of the start."""
        self._patience = cluster.watchdog_seconds
        self._start_patience = cluster.watchdog_start_seconds
        self._interval = min(self._patience, self._start_patience) / 4
        self._next_look = now + self._interval
        self._applied = np.array(applied)
        self._deadlines = np.full(len(applied), now + self._start_patience)

    def is_due(self, now: float) -> bool:
        """True if it is time for another look."""
        return now >= self._next_look

    def find_lost(self, applied: np.ndarray, now: float) -> list[int]:
        """Returns the ranks of readers that were lost since the last look; rank 0 looks, and never
        is. `applied` is `[readers]` or longer."""
        self._next_look = now + self._interval
        number = len(self._deadlines)
        self._deadlines[applied[:number] != self._applied] = now + self._patience
        self._applied = np.array(applied[:number])
        found = [rank for rank in range(1, number) if now >= self._deadlines[rank]]
        self._deadlines[found] = math.inf  # until it is seen again
        return found
