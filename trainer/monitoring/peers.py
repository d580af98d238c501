"""How fast the other processes of a run are, for the events of the chief."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

# Seconds between looks: the chief reads a file of each process, and stands still meanwhile.
_LOOK = 30.0


class Peers:
    """Reads what the other training processes of a cluster report, now and then."""

    def __init__(
        self, run: RunFolder, task: topology.Task, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._clock = run.impatient, clock
        roles = topology.TRAINING_ROLES
        names = [f"{role}-{n}" for role in roles for n in range(len(task.cluster.get(role, ())))]
        self._names = [name for name in names if name != task.name]
        self._looked = clock()

    def read_rates(self, *, now: bool = False) -> dict[str, float]:
        """Returns examples per second by task; nothing between two looks, unless asked `now`."""
        if not self._names or (not now and self._clock() - self._looked < _LOOK):
            return {}
        self._looked = self._clock()
        statuses = run_folder.read_statuses(self._run)
        rates = {n: statuses[n].examples_per_second for n in self._names if n in statuses}
        return {name: rate for name, rate in rates.items() if rate is not None}
