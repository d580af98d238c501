"""What a step of one process takes of each resource, as the calibration has measured it."""

from __future__ import annotations

from collections.abc import Sequence

import pydantic

from pipeline.config import strategy_table
from pipeline.planning.queueing import Station


class Machines(pydantic.BaseModel):
    """What processes have to share. `shared` are cores of a host that all of them are on; without
    it each has `server` or `worker` cores of its own. Links are in bytes a second that a process
    can send, `disk` those that all can read together; `None` is no limit."""

    model_config = pydantic.ConfigDict(frozen=True)

    shared: float | None = None
    server: float | None = None
    worker: float | None = None
    server_link: float | None = None
    worker_link: float | None = None
    disk: float | None = None


class Measured(pydantic.BaseModel):
    """One calibration run: `workers` besides the chief. Seconds and bytes are those of a step of
    one process, means over the window; `rate` is in steps a second of one process, `rates` of its
    parts. `seconds` are where a step's time went in the processes that train, by state, `periods`
    times from one step to the next. `pulled` and `pushed` are bytes from and to all servers."""

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
    periods: list[float]
    staleness: float | None = None
    # Of the run as a whole: until the first step, of a save, of an evaluation; bytes of memory.
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


HOST, SERVER, SERVER_LINK, DISK = "host cores", "server processor", "server link", "storage"
WORKER_LINK, INPUT, COMPUTE = "worker link", "input", "worker"


def stations(found: Calibration, machines: Machines, servers: int) -> list[Station]:
    """Returns what processes queue for. Parameters are taken to be spread evenly over servers."""
    worker_cpu, server_cpu = found.mean("worker_cpu"), found.mean("server_cpu")
    stations = []
    if machines.shared is not None:
        # Servers with cores of their own are not on the host of the others.
        on_host = worker_cpu + (server_cpu if machines.server is None else 0.0)
        stations.append(Station(HOST, on_host, machines.shared))
    if machines.server is not None and servers:
        stations.append(Station(SERVER, server_cpu / servers, machines.server))
    if machines.server_link and servers:
        stations.append(Station(SERVER_LINK, found.mean("pulled") / servers / machines.server_link))
    if machines.disk:
        read = found.examples_per_process * found.record_bytes
        stations.append(Station(DISK, read / machines.disk))
    return [station for station in stations if station.demand > 0]


def link_delay(found: Calibration, machines: Machines) -> float:
    """Returns the seconds of a step in which a process sends by its own link."""
    return found.mean("pushed") / machines.worker_link if machines.worker_link else 0.0


def input_period(run: Measured) -> float | None:
    """Returns the seconds in which the input makes a batch, if a process waits for it: what is
    computed meanwhile is hidden."""
    waited = run.seconds.get("input", 0.0)
    return 1 / run.rate if waited * run.rate > _WAITS else None


_WAITS = 0.1  # of a step


def largest(parts: Sequence[tuple[str, float]]) -> str:
    """Returns the name of the largest of some parts of a step."""
    return max(parts, key=lambda part: part[1])[0]
