"""Which process is hit next."""

from __future__ import annotations

import collections
import random
from collections.abc import Mapping

ALL, FORK_SERVER, LAUNCHER = "all", "fork-server", "launcher"
# Kills of what is restarted as one between two launches: a launcher waits longer each time.
_SAME = 5


class Targets:
    """Draws what is killed: a task, all, the fork server, or the launcher.

    `counts` are the processes by role; `together` says that all that train are restarted as one.
    """

    def __init__(
        self, counts: Mapping[str, int], rng: random.Random, *, together: bool = False
    ) -> None:
        self._rng, self._together = rng, together
        self.tasks = [f"{role}-{at}" for role, count in counts.items() for at in range(count)]
        self._of_launch: collections.Counter[str] = collections.Counter()

    def draw(self) -> str:
        """Returns a target; the launcher if what was drawn has been killed often since it began."""
        target = self._rng.choice([*self.tasks, ALL, FORK_SERVER, LAUNCHER])
        often = max(self._of_launch[task] for task in self._list_restarted(target)) >= _SAME
        return LAUNCHER if often else target

    def note(self, target: str) -> None:
        """Counts a kill."""
        self._of_launch.update(self._list_restarted(target))
        if target == LAUNCHER:
            self._of_launch.clear()

    def _list_restarted(self, target: str) -> list[str]:
        """Returns what the launcher restarts when `target` is killed."""
        if target in (ALL, FORK_SERVER):
            return self.tasks
        if self._together and target in self.tasks and not target.startswith("evaluator"):
            return [task for task in self.tasks if not task.startswith("evaluator")]
        return [target]
