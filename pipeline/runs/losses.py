"""What may have ended processes of a run in the middle of a step that the others went on without.

In synchronous strategies nothing of such a step is kept; in asynchronous ones what the process had
applied stays, counted or not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from pipeline.cluster import topology
from pipeline.config.strategy_table import STRATEGIES
from pipeline.runs.accounts import Account
from pipeline.runs.fallbacks import Fallback
from pipeline.runs.launches import list_launches
from pipeline.runs.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class Losses:
    """Of launches that may have been asynchronous: `restarts` of lost processes that train or hold
    parameters, earlier launches that were `cut_off`, and how often training `fell_back` to a
    checkpoint that is not the newest. `unrecorded` is true if there were launches that the record
    does not tell of."""

    restarts: int = 0
    cut_off: int = 0
    unrecorded: bool = False
    fell_back: int = 0


def find_losses(
    record: RunRecord | None, known: Iterable[Account], fallbacks: Iterable[Fallback] = ()
) -> Losses:
    """Returns the losses of a run by its record, `None` if it cannot be read, by the accounts of
    its processes, and by its fall-backs. What is not recorded counts as the worst that it can be.
    """
    known = list(known)
    if record is None:
        return Losses(unrecorded=True)
    spans = list_launches(record, known)
    unknown = max(0, record.launches - max(1, len(spans)))
    risky = [_may_be_asynchronous(one.strategy, one.topology) for one in spans]
    if not spans:
        risky = [_may_be_asynchronous(record.strategy, record.topology)]
    earlier = zip(spans[:-1], risky[:-1], strict=True)
    cut_off = sum(one.was_cut_off and at_risk for one, at_risk in earlier)
    any_risk = unknown > 0 or any(risky)
    restarts = 0
    for restart in record.restarts:
        if restart.role == topology.EVALUATOR:
            continue  # it applies nothing
        begun = [] if restart.time is None else [s for s in spans if s.began <= restart.time]
        restarts += risky[len(begun) - 1] if begun else any_risk
    # A lost record begins again; the accounts of its processes are still there.
    trained = [one for one in known if "step" in one.seconds]
    before = any(one.until < spans[0].began for one in trained) if spans else False
    fell_back = set()
    for one in fallbacks:
        # The launch that it was in has saved nothing yet.
        begun = [s for s in spans if s.began <= one.time]
        at_risk = unknown > 0 or before or any(risky[: len(begun) - 1])
        fell_back |= {one.newest} if at_risk or not begun else set()
    return Losses(restarts, unknown + cut_off, before and not unknown, len(fell_back))


def _may_be_asynchronous(strategy: str | None, counts: Mapping[str, int]) -> bool:
    """Tells it of a launch; without a strategy, of an earlier version or a script, by its roles:
    asynchronous ones have servers."""
    known = STRATEGIES.get(strategy or "")
    return known.asynchronous if known else counts.get(topology.PS, 0) > 0
