"""How much of the time of a run was useful, and what became of the rest.

Goodput is the examples that survive into the newest checkpoint times the best sustained time per
example, over wall time times processes. The rest has named causes: each is measured, and gets no
more than is left when the ones before it have been taken off. What no cause is recorded for is
`other`. So the parts add up to the whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

USEFUL, OTHER = "useful", "other"


@dataclasses.dataclass(frozen=True)
class Measured:
    """What is known of a launch. Times are in seconds, `best_rate` is examples per second of all
    processes together; `None` if no sustained pace was measured."""

    total: float
    start: float
    end: float
    processes: int
    examples: float
    best_rate: float | None
    lost_examples: float = 0.0
    # Of how many processes for how long: a save, or what followed a loss.
    recovering: Sequence[tuple[float, int]] = ()
    saving: Sequence[tuple[float, int]] = ()


@dataclasses.dataclass(frozen=True)
class Part:
    """Process seconds that went to one cause."""

    name: str
    seconds: float
    share: float
    what: str


def split(found: Measured) -> list[Part]:
    """Returns the whole time in parts that add up to it, the useful one first."""
    whole = max(0.0, found.total * found.processes)
    pace = found.processes / found.best_rate if found.best_rate else 0.0
    wanted = (
        ("start-up", found.start * found.processes, "until the first step"),
        ("end", found.end * found.processes, "evaluation and export after the last step"),
        ("recovery", _sum(found.recovering), "from a loss to the next step"),
        ("saving", _sum(found.saving), "checkpoints, of the processes that wait for them"),
        # What follows is computed from a pace, which a short run measures badly.
        (
            USEFUL,
            found.examples * pace,
            "examples that the newest checkpoint has, at the best pace",
        ),
        ("lost work", found.lost_examples * pace, "examples that were made again, or not saved"),
    )
    left, parts = whole, []
    for name, seconds, what in wanted:
        taken = min(left, max(0.0, seconds))
        left -= taken
        parts.append(Part(name, taken, taken / whole if whole else 0.0, what))
    what = "slower than the best pace, for causes that are not recorded"
    parts.append(Part(OTHER, left, left / whole if whole else 0.0, what))
    return sorted(parts, key=lambda part: part.name != USEFUL)


def _sum(pieces: Sequence[tuple[float, int]]) -> float:
    return sum(seconds * processes for seconds, processes in pieces)
