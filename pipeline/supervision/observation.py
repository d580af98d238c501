"""What the processes of a run report, how far it is, and what its restarts have cost."""

from __future__ import annotations

import time

from pipeline import storage
from pipeline.cluster import topology
from pipeline.cluster.tolerance import Tolerance
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import Status
from pipeline.supervision import restart_policy
from pipeline.supervision.pace import Pace
from pipeline.supervision.plan import Observer, RunSpec
from pipeline.supervision.process_table import ProcessTable

# Seconds between two looks at the status files of a run on gs://.
_REMOTE_POLL = 5.0


class Observation:
    """Reads the status files of a run's processes now and then, and passes them on."""

    def __init__(
        self,
        plan: RunSpec,
        processes: ProcessTable,
        observer: Observer,
        *,
        restarts: list[run_record.Restart],
    ) -> None:
        """Restarts are added to `restarts`; the cost of each is filled in when it is over."""
        self._run, self._processes, self._observer = plan.run, processes, observer
        self._every = _REMOTE_POLL if storage.is_remote(plan.run.path) else plan.graces.poll
        self._reading = Tolerance("reading what the processes report", clock=time.monotonic)
        self._looked_at = -1e9
        self._recoveries: list[restart_policy.Recovery] = []
        self.restarts = restarts
        self.statuses: dict[str, Status] = {}
        self.pace = Pace(plan.steps)

    def look(self, *, now: bool = False) -> None:
        """Reads the status files, unless it has done so a moment ago and need not be up to date
        `now`."""
        if not now and time.monotonic() - self._looked_at < self._every:
            return
        self._looked_at = time.monotonic()
        members = self._processes.members
        with self._reading.survive():
            self.statuses = {
                name: status
                for name, status in run_folder.read_statuses(self._run).items()
                if name in members and status.pid == members[name].pid
            }
        statuses = self.statuses
        trains = topology.TRAINING_ROLES
        self.pace.see(s for name, s in statuses.items() if members[name].role in trains)
        self._recoveries = [one for one in self._recoveries if not one.see(statuses)]
        self._observer.show(statuses)

    def show_line(self, line: str) -> None:
        """Shows one line to the user."""
        self._observer.show_line(line)

    def add_restart(
        self, role: str, index: int, cause: str, *, step: int | None, gang: bool
    ) -> None:
        """Adds a loss to the restarts, and follows what it costs."""
        now = time.time()
        restart = run_record.Restart(
            role=role, index=index, cause=cause, step=step, time=now, gang=gang
        )
        self.restarts.append(restart)
        self._recoveries.append(
            restart_policy.Recovery(restart, wall_time=now, known=self.statuses, gang=gang)
        )
