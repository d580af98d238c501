"""How many examples a second other numbers of processes would train on, and what limits them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from pipeline import errors
from pipeline.planning import demands, queueing
from pipeline.planning.demands import Calibration, Machines, Measured

# Beyond this share a station is saturated; and what a range is at least, on either side.
_SATURATED, _LEAST_SPREAD = 0.9, 0.05
_FURTHEST = 4  # times the calibrated number of processes
_NO_OVERLAP, _MUCH_OVERLAP = 1.0, 10.0


@dataclasses.dataclass(frozen=True)
class Predicted:
    """A topology, `workers` besides the chief: examples a second with a range, and what limits it.

    `busy` are the shares of the time that shared resources are in use, `staleness` is a range.
    `is_bound` if the limiting one is used more than it was in any calibration run: then it is only
    known that the rate is at most `high`.
    """

    strategy: str
    workers: int
    servers: int
    rate: float
    low: float
    high: float
    bottleneck: str
    busy: dict[str, float]
    is_bound: bool
    staleness: tuple[float, float] | None
    server_memory: float

    @property
    def processes(self) -> int:
        """All that the run has: the evaluator, too."""
        return self.workers + self.servers + 2

    @property
    def is_saturated(self) -> bool:
        """True if a shared resource is in use nearly all the time."""
        return max(self.busy.values(), default=0.0) > _SATURATED


def predict(found: Calibration, machines: Machines, workers: int, *, servers: int) -> Predicted:
    """Returns what a topology reaches. `check_size` says how far that can be
    trusted."""
    if found.has_servers and not found.is_synchronous:
        rate, busy, limit = _predict_asynchronous(found, machines, workers + 1, servers=servers)
        spread = _spread(found, machines)
        low, high = rate * (1 - spread), rate * (1 + spread)
    else:
        model = _predict_synchronous if found.has_servers else _predict_all_reduce
        rate, high, busy, limit = model(found, machines, workers + 1, servers=servers)
        spread = _LEAST_SPREAD + _estimate_noise(found)
        low, high = rate * (1 - spread), high * (1 + spread)
    wider = 1 + math.log2(max(1.0, (workers + 1) / max(run.processes for run in found.runs)))
    low, high = max(0.0, rate - (rate - low) * wider), rate + (high - rate) * wider
    if not found.has_servers:
        # Where nothing of a ring overlaps, its steps wait for requests too.
        low /= 1 + rate / (workers + 1) * demands.ring_wait(machines, workers + 1)
    own = demands.compute_own_demands(found, machines, workers + 1, servers=servers)
    fullest = max([*busy.values(), rate / (workers + 1) * own.least])
    if fullest:
        # A resource that is in use all the time limits all of them, whatever waits.
        high = max(rate, min(high, rate / fullest * (1 + spread)))
    period = demands.input_period(found)
    if period is not None and found.is_synchronous:
        # The latest input holds up all: more processes make none of them faster than one alone.
        high = min(high, (workers + 1) / period)
    scale = found.examples_per_process
    memory = _predict_server_memory(found, servers) if servers else 0.0
    return Predicted(
        strategy=found.strategy,
        workers=workers,
        servers=servers,
        rate=rate * scale,
        low=low * scale,
        high=high * scale,
        bottleneck=limit,
        busy=busy,
        is_bound=_is_beyond_measured(found, busy),
        staleness=_predict_staleness(found, workers),
        server_memory=memory,
    )


def check_size(name: str, asked: Sequence[int], measured: int) -> None:
    """Raises `UsageError` for more processes of a role, `workers` or `ps`, than four times those
    that are measured."""
    # The chief trains, too.
    chief = int(name == "workers")
    most = _FURTHEST * (measured + chief) - chief
    if max(asked) > most:
        needed = math.ceil((max(asked) + chief) / _FURTHEST) - chief
        raise errors.UsageError(
            f"--{name}={','.join(map(str, asked))}: {max(asked)} is more than four times what is "
            f"calibrated; ask for at most {most}, or give --calibrate_{name}={needed}"
        )


def _predict_asynchronous(
    found: Calibration, machines: Machines, processes: int, *, servers: int
) -> tuple[float, dict[str, float], str]:
    think = sum(_think(found, run) for run in found.runs) / len(found.runs)
    stations = demands.stations(found, machines, servers)
    own = demands.compute_own_demands(found, machines, processes, servers=servers)
    alone = think + own.seconds
    solved = queueing.solve(alone, stations, processes)
    rate, busy = solved.rate, solved.busy
    limit = demands.find_largest(own.parts(think))
    most = max(stations, key=lambda station: station.busy, default=None)
    if most is not None and processes * most.busy >= alone + sum(one.demand for one in stations):
        limit = most.name
    period = demands.input_period(found)
    if period is not None and processes / period < rate:
        rate, limit = processes / period, demands.INPUT
        busy = {station.name: rate * station.busy for station in stations}
    return rate, busy, limit


def _think(found: Calibration, run: Measured) -> float:
    """Returns what is left of a measured step without shared resources, and without what it waits
    for its input: computing, TensorFlow and Python."""
    machines = found.machines
    stations = demands.stations(found, machines, run.servers)
    waited = demands.input_wait(found, run) if demands.input_period(found) is not None else 0.0
    cycle = 1 / run.rate - waited
    think = queueing.think_time(run.processes / cycle, stations, run.processes)
    return max(
        0.0,
        think
        - demands.compute_own_demands(found, machines, run.processes, servers=run.servers).seconds,
    )


def _spread(found: Calibration, machines: Machines) -> float:
    """Returns how far off the model is where it was measured, and how much these rates vary."""
    off = [
        abs(
            _predict_asynchronous(found, found.machines, run.processes, servers=run.servers)[0]
            / run.total_rate
            - 1
        )
        for run in found.runs
    ]
    return max(_LEAST_SPREAD, *off) + _estimate_noise(found)


def _estimate_noise(found: Calibration) -> float:
    """Returns the largest relative standard error of the measured rates."""
    errors_ = []
    for run in found.runs:
        mean = sum(run.rates) / len(run.rates)
        variance = sum((rate - mean) ** 2 for rate in run.rates) / max(1, len(run.rates) - 1)
        errors_.append(math.sqrt(variance / len(run.rates)) / mean)
    return max(errors_)


def _predict_synchronous(
    found: Calibration, machines: Machines, processes: int, *, servers: int
) -> tuple[float, float, dict[str, float], str]:
    """A step takes as long as the slowest process, and the slowest resource for all of them. What
    resources took where it was measured is replaced by what they take here. Meanwhile the input
    makes the next batches."""
    run = max(found.runs, key=lambda one: one.processes)
    measured = queueing.compute_expected_maximum(run.periods, 1.0)
    slowest = queueing.compute_expected_maximum(run.periods, processes / run.processes)
    there, here = (
        _exchange(demands.stations(found, at, count), number)
        + demands.compute_own_demands(found, at, number, servers=count).seconds
        for at, count, number in (
            (found.machines, run.servers, run.processes),
            (machines, servers, processes),
        )
    )
    waited, period = demands.input_wait(found, run), demands.input_period(found) or 0.0
    busiest = max(here, slowest - waited - there + here)
    seconds = max(busiest, period, slowest if waited else 0.0)
    stations = demands.stations(found, machines, servers)
    rate = processes / seconds
    busy = {station.name: rate * station.busy for station in stations}
    own = demands.compute_own_demands(found, machines, processes, servers=servers)
    queued = max(((processes * one.busy, one.name) for one in stations), default=(0.0, ""))
    rest = seconds - own.seconds - queued[0]
    limit = demands.find_largest([*own.parts(rest), (queued[1], queued[0])])
    if seconds > busiest:
        limit = demands.INPUT
    least = max(here, measured - waited - there + here, period)
    return rate, processes / least, busy, limit


def _exchange(stations: Sequence[queueing.Station], processes: int) -> float:
    """Returns the seconds in which all processes have been at each station, one after the other at
    the slowest."""
    slowest = max((station.busy for station in stations), default=0.0)
    return sum(station.demand for station in stations) + (processes - 1) * slowest


def _predict_all_reduce(
    found: Calibration, machines: Machines, processes: int, *, servers: int
) -> tuple[float, float, dict[str, float], str]:
    small, large = found.runs[0], found.runs[-1]
    own = demands.compute_own_demands(found, machines, processes, servers=servers)
    fed = [1 / run.rate - demands.input_wait(found, run) for run in (small, large)]
    visible = _compute_visible_exchange(found, small)
    compute = fed[0] - visible + own.slowed
    more = max(0.0, fed[1] - fed[0]) / max(1, large.processes - small.processes)
    exchange = visible + more * max(0, processes - small.processes)
    floor = own.processor
    stations = demands.stations(found, machines, 0)
    if stations:
        floor = max(floor, processes * max(station.busy for station in stations))
    alone, hidden = (
        max(floor, queueing.compute_all_reduce_seconds(compute, exchange + own.link, overlap))
        for overlap in (_NO_OVERLAP, _MUCH_OVERLAP)
    )
    period = demands.input_period(found) or 0.0
    rate = processes / max(alone, period)
    busy = {station.name: rate * station.busy for station in stations}
    limit = demands.find_largest(
        [*own.parts(compute - own.processor), (demands.EXCHANGE, exchange)]
    )
    saturated = max(busy, key=lambda name: busy[name], default="")
    if period > alone:
        limit = demands.INPUT
    elif saturated and busy[saturated] > _SATURATED:
        limit = saturated
    return rate, processes / max(hidden, period), busy, limit


def _compute_visible_exchange(found: Calibration, run: Measured) -> float:
    """Returns the seconds of a step in which processes do nothing but exchange, without those in
    which they wait for one whose input is late."""
    visible = run.seconds.get("exchange", 0.0) + run.seconds.get("waiting", 0.0)
    waited = demands.input_wait(found, run)
    late = waited - run.seconds.get("input", 0.0) if waited else 0.0
    return max(0.0, visible - late)


def _is_beyond_measured(found: Calibration, busy: dict[str, float]) -> bool:
    """True if a station is saturated, and was not in any of the calibration runs."""
    for name, share in busy.items():
        if share <= _SATURATED:
            continue
        measured = [
            run.total_rate * station.busy
            for run in found.runs
            for station in demands.stations(found, found.machines, run.servers)
            if station.name == name
        ]
        if max(measured, default=0.0) <= _SATURATED:
            return True
    return False


def _predict_staleness(found: Calibration, workers: int) -> tuple[float, float] | None:
    """Returns the range of the updates of others that come between reading and writing: of each
    other process as many as in one of the calibration runs. It is unknown if one of these has too
    few to tell."""
    if not found.has_servers:
        return None
    if found.is_synchronous:
        return 0.0, 0.0
    known = [run.staleness for run in found.runs if run.staleness is not None]
    others = [run.workers for run in found.runs]
    if len(known) < len(others) or not all(others):
        return None
    shares = [late / count for late, count in zip(known, others, strict=True)]
    return workers * min(shares), workers * max(shares)


def _predict_server_memory(found: Calibration, servers: int) -> float:
    """Returns bytes: of a process, and of the parameters that it holds."""
    run = found.runs[-1]
    base = max(0.0, run.server_memory - run.checkpoint_bytes / run.servers) if run.servers else 0.0
    return base + run.checkpoint_bytes / servers
