"""How many calls of a function on records run at the same time in an input pipeline.

Their results keep their order, so the ledger and every batch are the same for any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.processes import environment
from pipeline.records import feature_plan

# Each call holds a batch in memory: of large ones, two calls do, or as many as hold so many bytes.
_MOST, _LEAST, _BYTES = 16, 2, 256 << 20


def count_calls(variables: Mapping[str, str]) -> int | None:
    """Returns how many there are in a process with these environment variables: its share of the
    processors. `None` for one after the other, without threads of their own."""
    given = variables.get(environment.THREADS, "")
    share = int(given) if given.isdigit() and int(given) else environment.processors()
    return min(share, _MOST) if share > 1 else None


def limit_calls(calls: int | None, size: int) -> int | None:
    """Returns how many of `calls` there are at a time, of batches of `size` bytes."""
    return calls and min(calls, max(_LEAST, _BYTES // max(1, size)))


def are_random(features: Iterable[feature_plan.Planned]) -> bool:
    """True if a feature is changed at random in training: such calls come one after the other, so
    that equal seeds give equal batches."""
    return any(step.in_training_only for planned in features for step in planned.steps)
