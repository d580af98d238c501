"""Ends processes: SIGTERM first, and SIGKILL only when nothing worth waiting for is under way."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes.fork_client import StopRequest
from pipeline.supervision import watchdog
from pipeline.supervision.members import Member
from pipeline.supervision.observation import Observation
from pipeline.supervision.plan import RunSpec
from pipeline.supervision.process_table import ProcessTable


class Ending:
    """Ends the processes of a run in the order in which they need each other."""

    def __init__(
        self,
        plan: RunSpec,
        processes: ProcessTable,
        stop: StopRequest,
        *,
        observation: Observation,
        saving: watchdog.Saving,
    ) -> None:
        self._plan, self._processes, self._stop = plan, processes, stop
        self._observation, self._saving = observation, saving

    def end_all(self, *, softly: bool) -> None:
        """Ends every process: those that train first, so that they can save, and the parameter
        servers, which they need for that, last. After a fatal error nothing is worth saving."""
        graces = self._plan.graces
        steps = (
            ([*topology.TRAINING_ROLES], graces.training),
            ([topology.EVALUATOR], graces.evaluator),
            ([topology.PS], graces.ps),
        )
        if softly and self._processes.list_running(topology.TRAINING_ROLES):
            self._observation.show_line(f"{self._plan.stopping}; Ctrl-C again stops at once")
        patience = min(self._stop.count, 1)  # the first request is why we are here
        for roles, grace in steps:
            try:
                self.end(roles, grace if softly else 0.0, patience=patience)
            except errors.PipelineError:
                return  # the fork server is gone, and every process with it

    def end_parameter_servers(self) -> None:
        """Ends the parameter servers, which are not needed after training."""
        self.end([topology.PS], self._plan.graces.ps)

    def end_stragglers(self, seconds: float) -> None:
        """Ends what only trains, `seconds` after training was over
        (docs/tensorflow-pitfalls.md#parameter-servers-never-exit)."""
        workers = self._processes.list_running([topology.WORKER])
        if not workers:
            self.end_parameter_servers()
        elif seconds > self._plan.graces.stragglers:
            names = ", ".join(member.name for member in workers)
            self._observation.show_line(
                f"{names}: still there after the end of training; ending it"
            )
            self.end([topology.WORKER], self._plan.graces.ps)

    def end(self, roles: Iterable[str], grace: float, *, patience: int = 0) -> None:
        """Ends the processes of `roles`: SIGTERM, then SIGKILL after `grace` seconds, unless they
        are saving; or as soon as there have been more than `patience` stop requests.

        Without a grace there is no SIGTERM, and no save is waited for: it may need a process that
        was lost."""
        for member in self._processes.members.values():
            if member.role in roles and member.state == "due":
                member.state = "done"
        pending = self._processes.list_running(roles)
        if grace:
            self._send(pending, signal.SIGTERM)
        poll = self._plan.graces.poll
        deadline, killed = time.monotonic() + grace, False
        while pending:
            insisted = self._stop.count > patience
            over = time.monotonic() >= deadline
            if grace and over and not (killed or insisted) and self._are_saving(pending):
                over, deadline = False, time.monotonic() + poll
            if not killed and (over or insisted):
                killed = True
                self._send(pending, signal.SIGKILL)
            left = max(0.0, deadline - time.monotonic()) + 0.01
            self._processes.receive(min(poll, left), self._stop)
            pending = self._processes.list_running(roles)

    def _send(self, members: list[Member], number: int) -> None:
        for member in members:
            self._processes.send(member, number)

    def _are_saving(self, pending: list[Member]) -> bool:
        self._observation.look(now=True)
        statuses = self._observation.statuses
        own = {m.name: statuses[m.name] for m in pending if m.name in statuses}
        return self._saving.continues(own, time.monotonic())
