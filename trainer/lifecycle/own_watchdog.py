"""Ends a process that hangs where no launcher watches it: on Kubernetes, on Vertex AI, or started
by hand. The place starts it again, or whoever gives the same command.

It applies the rules of the launcher's watchdog to the process's own reports. The time in which the
process is suspended does not count, so that one that continues is not taken for one that hangs.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

from pipeline import errors
from pipeline.cluster import topology
from pipeline.cluster.tolerance import Tolerance
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import ports, watchdog
from trainer.lifecycle import leaving
from trainer.monitoring.status_reporter import Reporter

# Looks in the shortest limit, and the most seconds between two: each reads the chief's status.
_LOOKS, _LONGEST = 8, 15.0
# A look that comes so many times later than it should: the process was suspended.
_SUSPENDED = 3.0
_CONNECT = 2.0  # seconds


def _describe_unreachable(task: topology.Task) -> str:
    """Says which process that `task` makes its steps with cannot be reached, if one cannot."""
    servers = topology.PS in task.cluster
    for role in (topology.PS,) if servers else topology.TRAINING_ROLES:
        for index, address in enumerate(task.cluster.get(role, ())):
            why = ports.refusal(address, seconds=_CONNECT) if address != task.address else ""
            if why:
                return f"{role}-{index} cannot be reached at {address}: {why}"
    return ""


class OwnWatchdog:
    """Watches the process of `task`, which reports by `reporter`.

    A parameter server makes no progress of its own and is not watched.
    """

    def __init__(
        self,
        run: RunFolder,
        task: topology.Task,
        reporter: Reporter,
        *,
        limits: watchdog.HangLimits,
        leave: Callable[[Reporter, errors.PipelineError], None] = leaving.leave,
    ) -> None:
        self._run, self._task, self._reporter = run.impatient, task, reporter
        self._leave = leave
        files = functools.partial(watchdog.checkpoint_files, self._run)
        self._watchdog = watchdog.Watchdog(limits, files)
        self._interval = min(_LONGEST, min(limits.step, limits.start) / _LOOKS)
        self._now = 0.0
        self._looking = Tolerance(f"{task.name}: looking for a hang")

    def start(self) -> None:
        """Begins to look; the thread dies with the process."""
        if self._task.job_name != topology.PS:
            threading.Thread(target=self._watch, name="own-watchdog", daemon=True).start()

    def _watch(self) -> None:
        looked = time.monotonic()
        while True:
            time.sleep(self._interval)
            now = time.monotonic()
            with self._looking.survive():
                self.look(now - looked)
            looked = now

    def look(self, elapsed: float) -> None:
        """Ends the process if it hangs, `elapsed` seconds after the last look."""
        suspended = elapsed > _SUSPENDED * self._interval
        self._now += self._interval if suspended else elapsed
        own = self._reporter.status
        if own.state in run_folder.ENDED:
            return
        statuses = {own.task: own, **self._read_chief_status()}
        pids = {name: status.pid for name, status in statuses.items()}
        try:
            hang = self._watchdog.look(statuses, pids, self._now)
        except (errors.PipelineError, OSError):
            return  # the checkpoints cannot be looked at now
        if hang is not None and hang.name in (None, own.task):
            self._leave(self._reporter, errors.RetryableError(self._explain(hang)))

    def _explain(self, hang: watchdog.Hang) -> str:
        said = (
            f"{hang.cause}, which cluster.watchdog_seconds, watchdog_start_seconds and, before the "
            "first step, start_wait_seconds limit"
        )
        if lost := _describe_unreachable(self._task):
            return f"{said}. {lost}. Start it there, or give every role its right address"
        return f"{said}. Run the same command to resume."

    def _read_chief_status(self) -> dict[str, Status]:
        """Returns the status of a chief that others of its cluster may be waiting for."""
        if self._task.job_name != topology.WORKER:
            return {}
        chief = run_folder.read_status(self._run, f"{topology.CHIEF}-0")
        ended = chief is None or chief.state in run_folder.ENDED
        return {} if chief is None or ended else {chief.task: chief}
