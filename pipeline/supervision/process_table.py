"""The processes of one run: where each is addressed, and what it does at the moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from pipeline import storage
from pipeline.cluster import topology
from pipeline.processes import environment, memory
from pipeline.processes.fork_client import Ended, ForkServer, Spawn, Started, StopRequest
from pipeline.supervision.members import Member
from pipeline.supervision.plan import RunSpec
from pipeline.supervision.ports import Reservation

# All that are restarted together after a loss that a single restart does not repair.
GANG = (topology.PS, *topology.TRAINING_ROLES)


class ProcessTable:
    """The members of a cluster, started when they are due and followed until they end."""

    def __init__(
        self, plan: RunSpec, server: ForkServer, *, reserve: Callable[[int], Reservation]
    ) -> None:
        """`reserve` returns as many ports as it is asked for."""
        self._plan, self._server, self._reserve = plan, server, reserve
        self._ports: Reservation | None = None
        # How many processes of each role there are to be.
        self.counts = dict(plan.counts)
        self.members: dict[str, Member] = {}
        # By role: the addresses of its tasks, if there are several processes.
        self.cluster: dict[str, tuple[str, ...]] = {}
        # Ends that have not been handled yet.
        self.ended: list[Ended] = []

    @property
    def has_evaluator(self) -> bool:
        """True if the chief need not evaluate."""
        return bool(self.counts.get(topology.EVALUATOR))

    def list_running(self, roles: Iterable[str]) -> list[Member]:
        """Returns the members of `roles` that have a process."""
        wanted = set(roles)
        return [m for m in self.members.values() if m.role in wanted and m.state == "running"]

    def are_complete(self) -> bool:
        """True if all but the parameter servers have ended, and each end has been handled."""
        return not self.ended and all(
            m.state == "done" for m in self.members.values() if m.role != topology.PS
        )

    def place(self) -> list[str]:
        """Makes the members of a cluster on fresh ports, all due at once, and returns their
        addresses. A running evaluator stays: it needs no address."""
        places = max(self.counts.get(topology.WORKER, 0), self._plan.worker_places)
        addressed = {**self.counts, topology.WORKER: places}
        number = sum(addressed.get(role, 0) for role in GANG)
        addresses: list[str] = []
        if number > 1:
            self.release_ports()
            self._ports = self._reserve(number)
            addresses = list(self._ports.addresses)
            self.cluster = topology.cluster_of(addressed, addresses)
        for name in [name for name, member in self.members.items() if member.role in GANG]:
            del self.members[name]
        for role, count in self.counts.items():
            for index in range(count):
                if f"{role}-{index}" not in self.members:
                    self.add(role, index)
        return addresses

    def add(self, role: str, index: int) -> None:
        """Makes another member of the cluster, due at once."""
        task = topology.Task(role, index, self.cluster)
        log = os.path.join(self._plan.logs, f"{task.name}.log")
        self.members[task.name] = Member(role, index, task, log)

    def release_ports(self) -> None:
        """Lets other runs have the ports of this one."""
        if self._ports is not None:
            self._ports.release()

    def start_due(self) -> None:
        """Starts the members whose time has come."""
        for member in self.members.values():
            if member.state == "due" and member.due <= time.monotonic():
                self._start(member)

    def _start(self, member: Member) -> None:
        log = member.log
        member.log_start = os.path.getsize(log) if os.path.exists(log) else 0
        member.kills_before = memory.count_kills()
        member.state, member.pid, member.hang = "running", 0, None
        arguments = (self._plan.run.path, self._plan.records, member.task)
        extra = environment.build_for_role(
            member.role,
            os.environ,
            processors=environment.processors(),
            trainers=sum(self.counts.get(r, 0) for r in topology.TRAINING_ROLES),
            gpus=self._plan.gpus(member.task),
        )
        self._server.spawn(Spawn(member.name, self._plan.entry, arguments, log, extra))

    def receive(self, timeout: float, stop: StopRequest) -> None:
        """Waits up to `timeout` seconds for news of processes, or for a request to stop."""
        for event in self._server.wait(timeout, also=[stop.descriptor]):
            member = self.members[event.name]
            if isinstance(event, Started):
                member.pid = event.pid
            else:
                member.state = "done"
                storage.sweep(self._plan.run.path, member.pid)
                self.ended.append(event)
        stop.drain()

    def take_ended(self) -> list[Ended]:
        """Returns the ends to be handled, and forgets them."""
        events, self.ended = self.ended, []
        return events

    def send(self, member: Member, number: int) -> None:
        """Sends a signal to the process of a member."""
        self._server.signal(member.name, number)

    def forget_gang(self) -> None:
        """Forgets the ends and reports of all processes that train, before others replace them."""
        self.ended = [e for e in self.ended if self.members[e.name].role not in GANG]
        for member in self.members.values():
            if member.role in GANG:
                self._forget_status(member)

    def restart_server(self) -> list[Member]:
        """Starts another fork server; returns the members whose processes were lost with the
        earlier one."""
        self.ended.clear()
        lost = [member for member in self.members.values() if member.state != "done"]
        for member in lost:
            storage.sweep(self._plan.run.path, member.pid)
            self._forget_status(member)
        self._server.restart()
        return lost

    def _forget_status(self, member: Member) -> None:
        # The new processes wait for reports of each other, not of these.
        self._plan.run.remove(f"status/{member.name}.json")
