"""What a step of one process takes of each resource, as the calibration has measured it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pydantic

from pipeline import errors
from pipeline.config import strategy_table
from pipeline.planning import ethernet
from pipeline.planning.further_server import FurtherServer
from pipeline.planning.queueing import Station


class Machines(pydantic.BaseModel):
    """What processes have to share. `shared` are cores of a host that all of them are on; without
    it each has `server` or `worker` cores of its own. Links are in bytes a second that a process
    can send, `disk` those that all can read together; `None` is no limit. Links of an `ethernet`
    have smaller packets than the loopback on which bytes were counted."""

    model_config = pydantic.ConfigDict(frozen=True)

    shared: float | None = None
    server: float | None = None
    worker: float | None = None
    server_link: float | None = None
    worker_link: float | None = None
    ethernet: bool = False
    disk: float | None = None

    def count_link_bytes(self, sent: float, *, received: float) -> float:
        """Returns the bytes that a process puts on its link for what was counted."""
        return ethernet.count_wire_bytes(sent, received=received) if self.ethernet else sent


class Measured(pydantic.BaseModel):
    """One calibration run: `workers` besides the chief. Seconds and bytes are those of a step of
    one process, means over the window; `rate` is in steps a second of one process, `rates` of its
    parts. `seconds` are where a step's time went in the processes that train, by state, `periods`
    times from one step to the next. `pulled` and `pushed` are bytes from and to all servers; of an
    all-reduce, `pushed` are those to other processes."""

    workers: int
    servers: int
    rate: float
    rates: list[float]
    worker_cpu: float
    server_cpu: float
    pulled: float = 0.0
    pushed: float = 0.0
    rows: float = 0.0
    # Whether bytes were counted in the run's own network, or only by traces of single steps.
    counted_bytes: bool = False
    seconds: dict[str, float]
    # Seconds that the process waits for its input which waits longest.
    longest_input: float = 0.0
    periods: list[float]
    staleness: float | None = None
    # For the run as a whole: seconds until the first step, for a save and for an evaluation, and
    # bytes of memory.
    start_seconds: float
    save_seconds: float
    evaluation_seconds: float | None = None
    server_memory: int = 0
    worker_memory: int = 0
    checkpoint_bytes: int = 0

    @property
    def processes(self) -> int:
        """How many train: the workers and the chief."""
        return self.workers + 1

    @property
    def total_rate(self) -> float:
        """Steps a second of all that train, each counted."""
        return self.rate * self.processes


class Calibration(pydantic.BaseModel):
    """All that was measured of a job with a strategy, on these machines."""

    config: str
    strategy: str
    machines: Machines
    examples_per_process: int
    record_bytes: float = 0.0
    # None if the same number of servers is planned as was measured.
    further_server: FurtherServer | None = None
    runs: list[Measured]

    @property
    def is_synchronous(self) -> bool:
        """True if all that train make each step together."""
        return strategy_table.STRATEGIES[self.strategy].synchronous

    @property
    def has_servers(self) -> bool:
        """True if parameters lie on servers."""
        return strategy_table.STRATEGIES[self.strategy].servers

    def mean(self, name: str) -> float:
        """Returns the mean over all runs of what one step takes."""
        return sum(float(getattr(run, name)) for run in self.runs) / len(self.runs)

    def worker_cpu(self, servers: int) -> float:
        """Returns the processor seconds of a process that trains in a step of so many servers."""
        more = self.further_server.worker if self.further_server else 0.0
        return max(0.0, self.mean("worker_cpu") + more * self._count_further(servers))

    def server_cpu(self, servers: int) -> float:
        """Returns the processor seconds that a step takes of so many servers together."""
        more = self.further_server.server if self.further_server else 0.0
        return max(0.0, self.mean("server_cpu") + more * self._count_further(servers))

    def _count_further(self, servers: int) -> int:
        return servers - self.runs[-1].servers


HOST, SERVER, SERVER_LINK, DISK = "host cores", "server processor", "server link", "storage"
WORKER_PROCESSOR, WORKER_LINK = "worker processor", "worker link"
INPUT, COMPUTE, EXCHANGE = "input", "worker", "exchange"


def stations(found: Calibration, machines: Machines, servers: int) -> list[Station]:
    """Returns what processes queue for. Parameters are taken to be spread evenly over servers."""
    worker_cpu, server_cpu = found.worker_cpu(servers), found.server_cpu(servers)
    stations = []
    if machines.shared is not None:
        # Servers with cores of their own are not on the host of the others.
        on_host = worker_cpu + (server_cpu if machines.server is None else 0.0)
        stations.append(Station(HOST, on_host, machines.shared))
    if machines.server is not None and servers:
        stations.append(Station(SERVER, server_cpu / servers, machines.server))
    if machines.server_link and servers:
        sent = machines.count_link_bytes(found.mean("pulled"), received=found.mean("pushed"))
        stations.append(Station(SERVER_LINK, sent / servers / machines.server_link))
    if machines.disk:
        read = found.examples_per_process * found.record_bytes
        stations.append(Station(DISK, read / machines.disk))
    return [station for station in stations if station.demand > 0]


@dataclasses.dataclass(frozen=True)
class Own:
    """Seconds that a step takes of what a process has for itself: its processor, none where all
    share those of a host, and its link. `slowed` are those that too few cores add."""

    processor: float
    slowed: float
    link: float

    @property
    def seconds(self) -> float:
        """Of both, one after the other."""
        return self.processor + self.link

    @property
    def least(self) -> float:
        """Seconds that a step takes at least, whatever overlaps."""
        return max(self.link, self.processor if self.slowed else 0.0)

    def parts(self, rest: float) -> list[tuple[str, float]]:
        """Returns what may hold up a step that takes a `rest` of its own besides. The processor
        does so if it has too few cores."""
        few = self.processor if self.slowed else 0.0
        return [
            (COMPUTE, rest + self.processor - few),
            (WORKER_PROCESSOR, few),
            (WORKER_LINK, self.link),
        ]


def compute_own_demands(
    found: Calibration, machines: Machines, processes: int, *, servers: int
) -> Own:
    """Returns what each of so many processes that train has for itself. A step keeps as many cores
    busy as it was seen to, or one."""
    link = 0.0
    if machines.worker_link:
        sent = _count_sent_bytes(found, processes)
        received = found.mean("pulled") if found.has_servers else sent
        link = machines.count_link_bytes(sent, received=received) / machines.worker_link
    if machines.shared is not None:
        return Own(0.0, 0.0, link)
    at_once = max(1.0, *(run.worker_cpu * run.rate for run in found.runs))
    cores = at_once if machines.worker is None else min(at_once, machines.worker)
    cpu = found.worker_cpu(servers)
    return Own(cpu / cores, cpu / cores - cpu / at_once, link)


def ring_wait(machines: Machines, processes: int) -> float:
    """Returns the seconds of a step that a ring waits at most for requests: in each of its rounds a
    process asks its neighbor for the next part, behind what its own machine is sending."""
    if not machines.worker_link:
        return 0.0
    return 2 * (processes - 1) * ethernet.BURST / machines.worker_link


def _count_sent_bytes(found: Calibration, processes: int) -> float:
    """Returns the bytes of a step that a process sends.

    In a ring of n, each sends 2(n-1)/n of the dense gradients, and n-1 times the sparse ones that
    it has made. Two runs tell how much is sparse; what may be an error of counting is not.
    """
    if found.has_servers:
        return found.mean("pushed")
    if not all(run.pushed for run in found.runs):
        raise errors.UsageError(
            f"{found.strategy}: the bytes of a step were not counted, as its calibration had no "
            "network of its own (see `make doctor`); plan it without LINK="
        )
    small, large = found.runs[0], found.runs[-1]
    dense = sum(run.pushed / _compute_ring_factor(run.processes) for run in found.runs) / len(
        found.runs
    )
    gathers = (small.processes - 1, large.processes - 1)
    reduces = (_compute_ring_factor(small.processes), _compute_ring_factor(large.processes))
    both = reduces[0] * gathers[1] - reduces[1] * gathers[0]
    sparse = (large.pushed * reduces[0] - small.pushed * reduces[1]) / both if both else 0.0
    if sparse * gathers[0] < _SPARSE * small.pushed:
        return dense * _compute_ring_factor(processes)
    dense = max(0.0, small.pushed - sparse * gathers[0]) / reduces[0]
    return dense * _compute_ring_factor(processes) + sparse * (processes - 1)


def _compute_ring_factor(processes: int) -> float:
    return 2 * (processes - 1) / processes


def input_wait(found: Calibration, run: Measured) -> float:
    """Returns the seconds of a step that a process waits for its input, 0 if that is no more than
    happens to all. Of processes that step together the one that waits longest counts: in the
    others the wait for it is part of the exchange."""
    waited = run.seconds.get("input", 0.0)
    if found.is_synchronous:
        waited = max(waited, run.longest_input)
    return waited if waited * run.rate > _WAITS else 0.0


def input_period(found: Calibration) -> float | None:
    """Returns the seconds in which the input makes a batch, if processes wait for it: what is
    computed meanwhile is hidden. `None` if it is not known.

    One run is enough for processes that step together: they are not faster than their input,
    though a longer exchange may hide it from a larger run.
    """
    periods = [1 / run.rate for run in found.runs if input_wait(found, run)]
    if not periods or (len(periods) < len(found.runs) and not found.is_synchronous):
        return None
    return sum(periods) / len(periods)


_WAITS = 0.1  # of a step
_SPARSE = 0.1  # of the bytes of the smaller run


def find_largest(parts: Sequence[tuple[str, float]]) -> str:
    """Returns the name of the largest of some parts of a step."""
    return max(parts, key=lambda part: part[1])[0]
