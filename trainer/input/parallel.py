"""How many calls of a function on records run at the same time in an input pipeline.

Their results keep their order, so the ledger and every batch are the same for any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.processes import environment
from pipeline.records import feature_plan

# Each call holds a batch in memory.
_MOST = 16


def count_calls(variables: Mapping[str, str]) -> int | None:
    """Returns how many there are in a process with these environment variables: its share of the
    processors. `None` for one after the other, without threads of their own."""
    given = variables.get(environment.THREADS, "")
    share = int(given) if given.isdigit() and int(given) else environment.processors()
    return min(share, _MOST) if share > 1 else None


def are_random(features: Iterable[feature_plan.Planned]) -> bool:
    """True if a feature is changed at random in training: such calls come one after the other, so
    that equal seeds give equal batches."""
    return any(step.in_training_only for planned in features for step in planned.steps)
