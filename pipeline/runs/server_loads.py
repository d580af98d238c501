"""What a step of every process asks of each parameter server, as the processes have traced it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pydantic

from pipeline.runs.run_folder import Status


class ServerLoad(pydantic.BaseModel):
    """The rows of tables that a step asks of a server, and the bytes to and from it."""

    rows: float
    bytes: float


def add_up(statuses: Iterable[Status]) -> dict[str, ServerLoad]:
    """Returns by server what one step of each process asks of it, added up; nothing if no process
    has traced a step."""
    known = [status.servers for status in statuses if status.servers]
    count = max(map(len, known), default=0)
    return {
        f"ps-{n}": ServerLoad(
            rows=sum(loads[n]["rows"] for loads in known if n < len(loads)),
            bytes=sum(loads[n]["bytes"] for loads in known if n < len(loads)),
        )
        for n in range(count)
    }


def to_mean(values: Sequence[float]) -> list[float]:
    """Returns how many times the mean of all each is; 1 if all are 0."""
    mean = sum(values) / len(values)
    return [value / mean if mean else 1.0 for value in values]
