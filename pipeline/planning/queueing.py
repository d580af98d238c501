"""Operational analysis of a closed system: processes that compute, and resources they queue for.

Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System Performance" (1984): asymptotic bounds
in chapter 5, mean-value analysis in chapter 6. A resource of several servers is a queue with the
demand divided by them and a delay for the rest (Seidmann, Schweitzer and Shalev-Oren, 1987).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Station:
    """A resource that all processes share: `demand` is the seconds of it that a step takes, of
    `copies` that work at the same time."""

    name: str
    demand: float
    copies: float = 1.0

    @property
    def busy(self) -> float:
        """Seconds that it is busy for a step: no more than one step in so many can be made."""
        return self.demand / self.copies

    @property
    def delay(self) -> float:
        """Seconds of a step at it in which the next step may begin."""
        return max(0.0, self.demand - self.busy)


@dataclasses.dataclass(frozen=True)
class Solved:
    """Steps a second of all processes, and the share of the time that each station is busy."""

    rate: float
    busy: dict[str, float]


def bounds(think: float, stations: Sequence[Station], processes: int) -> tuple[float, float]:
    """Returns the least and the most steps a second that `processes` can make: the least if each
    waits at every station for all others, the most if they never meet."""
    whole = think + sum(station.demand for station in stations)
    queued = sum(station.busy for station in stations)
    most = processes / whole if whole else float("inf")
    slowest = max((station.busy for station in stations), default=0.0)
    if slowest:
        most = min(most, 1 / slowest)
    least = processes / (whole + (processes - 1) * queued) if whole else most
    return min(least, most), most


def solve(think: float, stations: Sequence[Station], processes: int) -> Solved:
    """Returns what `processes` reach together by exact mean-value analysis: each thinks for `think`
    seconds, then visits each station once."""
    delay = think + sum(station.delay for station in stations)
    queues = [0.0] * len(stations)
    rate = 0.0
    for present in range(1, processes + 1):
        times = [
            station.busy * (1 + queue) for station, queue in zip(stations, queues, strict=True)
        ]
        cycle = delay + sum(times)
        rate = present / cycle if cycle else float("inf")
        queues = [rate * time for time in times]
    return Solved(rate, {station.name: rate * station.busy for station in stations})


def think_time(rate: float, stations: Sequence[Station], processes: int) -> float:
    """Returns the think time with which `solve` gives `rate`; 0 if the stations alone are
    slower."""
    if solve(0.0, stations, processes).rate <= rate:
        return 0.0
    low, high = 0.0, processes / rate
    for _ in range(60):
        middle = (low + high) / 2
        if solve(middle, stations, processes).rate > rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def compute_expected_maximum(values: Sequence[float], copies: float) -> float:
    """Returns the mean of the largest of `copies` independent draws from measured `values`: their
    distribution function to that power. `copies` need not be whole; of 1 it is the mean."""
    ordered = sorted(values)
    count = len(ordered)
    return sum(
        value * (((n + 1) / count) ** copies - (n / count) ** copies)
        for n, value in enumerate(ordered)
    )


def compute_all_reduce_seconds(compute: float, exchange: float, overlap: float) -> float:
    """Returns the seconds of a step of which `compute` and `exchange` overlap: not at all at 1,
    wholly at infinity (Qiao et al., "Pollux", OSDI 2021, equation 9)."""
    if not compute or not exchange:
        return compute + exchange
    most = max(compute, exchange)
    ratio = min(compute, exchange) / most
    return float(most * (1 + ratio**overlap) ** (1 / overlap))
