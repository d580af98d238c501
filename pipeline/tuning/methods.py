"""Which trial trains on, up to where: pure functions of what the trials have reached so far.

Trials train from one rung to the next: numbers of examples that are the same for all of them. At a
rung a trial is paused with its checkpoint, and is continued only if its method says so.

- `asha`: successive halving. All trials reach the first rung; of each rung the best `1 / reduction`
  go on to the next (Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020).
  Unlike there, nothing is promoted before all trials have begun: their number is known here, and so
  fewer trials are promoted that others overtake.
- `median`: a trial goes on while it is not worse than the median of the others at its rung.
- `pbt`: all trials go on together. At each rung the worst quarter is replaced by copies of trials
  of the best quarter, with settings near theirs (Jaderberg et al., 2017).
- `full`: all trials train to the end.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Collection, Sequence
from typing import Any, Literal

from pipeline.tuning.space import Space, Values

METHODS = ("asha", "median", "pbt", "full")
# Trials that must have reached a rung before one is held against their median.
_OF_MEDIAN = 4
# The part of the trials that is compared with all of them, for what makes a good one.
BEST_PART = 0.25
# Share of a population that is replaced at a rung.
_REPLACED = 4


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial, so far: `reached` are the values of the objective at its rungs; it trains, or is to,
    up to rung `target`.

    A copy has the trial it is a copy of as `parent`, and takes the place of the trial `replaces`;
    `copied_at` is the rung where it was made.
    """

    number: int
    values: Values
    run: str
    reached: tuple[float, ...] = ()
    target: int = -1
    state: Literal["open", "done", "pruned", "failed"] = "open"
    parent: int | None = None
    replaces: int | None = None
    copied_at: int = -1
    error: str = ""
    # For each rung that it reached by itself, by number: {"step", "examples", "seconds",
    # "input_sha256", "manifest", "interrupted"}.
    facts: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def get_value(self, rung: int) -> float | None:
        """The value of the objective at a rung; `None` if it has not been there. A trial that has
        ended by itself before, by `eval.early_stopping`, is worth there what it was at its end."""
        if rung < len(self.reached):
            return self.reached[rung]
        return self.reached[-1] if self.state == "done" and self.reached else None

    @property
    def manifest(self) -> str | None:
        """SHA-256 of the manifest of the records it was trained on, if known."""
        found = (facts.get("manifest") for facts in self.facts.values())
        return next((one for one in found if one is not None), None)

    @property
    def interrupted(self) -> tuple[int, ...]:
        """The steps between two rungs at which it was stopped or killed and continued from."""
        return tuple(s for facts in self.facts.values() for s in facts.get("interrupted", ()))


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """What a search is: its method, how many trials, and how many rungs; the settings of copies are
    drawn by the seed."""

    method: str
    trials: int
    rungs: int
    reduction: int
    seed: int
    higher: bool
    space: Space = ()


@dataclasses.dataclass(frozen=True)
class Begin:
    """Make a trial and train it to the first rung."""


@dataclasses.dataclass(frozen=True)
class Continue:
    """Train a trial on to a rung."""

    number: int
    rung: int


@dataclasses.dataclass(frozen=True)
class Prune:
    """A trial makes no more steps."""

    number: int


@dataclasses.dataclass(frozen=True)
class Copy:
    """Make a copy of a trial with other values, in place of another one."""

    parent: int
    replaces: int
    values: Values


Action = Begin | Continue | Prune | Copy


def choose_next_action(
    plan: SearchPlan, trials: Sequence[Trial], running: Collection[int]
) -> Action | None:
    """Returns what to do while there is room for another trial; `None` if nothing can be done until
    one of those `running` ends, or at all."""
    replaced = {one.replaces for one in trials}
    alive = [one for one in trials if one.state == "open" and one.number not in replaced]
    idle = [one for one in alive if one.number not in running]
    for one in idle:
        if one.target >= len(one.reached):  # it was begun by a process that is gone
            return Continue(one.number, one.target)
    begun = sum(one.replaces is None for one in trials)
    if plan.method == "median" and (found := _choose_by_median(plan, trials, idle)):
        return found
    if begun < plan.trials:
        return Begin()
    if plan.method == "asha":
        intact = [one for one in trials if one.state != "failed"]
        return _choose_by_promotion(plan, intact, idle, running=running)
    if plan.method == "pbt":
        return _choose_in_step(plan, trials, alive, idle=idle)
    return None


def rank_trials(plan: SearchPlan, trials: Sequence[Trial], rung: int) -> list[Trial]:
    """Returns the trials that have a value at a rung, the best there first; of equals the older."""
    sign = -1 if plan.higher else 1
    there = [
        (sign * value, one.number, one)
        for one in trials
        if (value := one.get_value(rung)) is not None
    ]
    return [one for _, _, one in sorted(there, key=lambda found: found[:2])]


def find_last_rung(plan: SearchPlan, trial: Trial) -> int:
    """Returns the rung of a trial's newest value: the last one if it has ended; -1 without."""
    return plan.rungs - 1 if trial.state == "done" else len(trial.reached) - 1


def find_best(plan: SearchPlan, trials: Sequence[Trial]) -> Trial | None:
    """Returns the best of those trials that have come farthest, or have ended by themselves. One
    that has failed is never the best: trained again, its settings would fail, too."""
    intact = [one for one in trials if one.state != "failed"]
    farthest = max((find_last_rung(plan, one) for one in intact), default=-1)
    return rank_trials(plan, intact, farthest)[0] if farthest >= 0 else None


def _choose_by_promotion(
    plan: SearchPlan, trials: Sequence[Trial], idle: Sequence[Trial], *, running: Collection[int]
) -> Action | None:
    waiting = {one.number for one in idle}
    under_way = [len(one.reached) for one in trials if one.number in running]
    for rung in range(plan.rungs - 1):
        ranked = _rank_rung(plan, trials, rung)
        quota = len(ranked) // plan.reduction
        # If there are few trials, the best continues once no other can reach this rung.
        if not any(reached <= rung for reached in under_way) and not _comes(plan, trials, rung):
            quota = max(1, quota)
        for one in ranked[:quota]:
            if one.number in waiting and len(one.reached) == rung + 1:
                return Continue(one.number, rung + 1)
    return None


def _rank_rung(plan: SearchPlan, trials: Sequence[Trial], rung: int) -> list[Trial]:
    """Returns the trials of a rung, the best first: those that have reached it, and those that had
    ended by themselves before and would have been promoted to it."""
    ranked = rank_trials(plan, trials, 0)
    for below in range(rung):
        promoted = {one.number for one in ranked[: max(1, len(ranked) // plan.reduction)]}
        there = rank_trials(plan, trials, below + 1)
        ranked = [one for one in there if len(one.reached) > below + 1 or one.number in promoted]
    return ranked


def _comes(plan: SearchPlan, trials: Sequence[Trial], rung: int) -> bool:
    """True if a trial is still to be promoted from a rung below `rung`."""
    for below in range(rung):
        ranked = _rank_rung(plan, trials, below)
        quota = max(1, len(ranked) // plan.reduction)
        if any(len(one.reached) == below + 1 and one.state == "open" for one in ranked[:quota]):
            return True
    return False


def _choose_by_median(
    plan: SearchPlan, trials: Sequence[Trial], idle: Sequence[Trial]
) -> Action | None:
    for one in idle:
        rung = len(one.reached) - 1
        if rung < 0:
            continue
        found = [o.get_value(rung) for o in trials if o is not one]
        others = [value for value in found if value is not None]
        if len(others) >= _OF_MEDIAN:
            margin = one.reached[rung] - statistics.median(others)
            if margin < 0 if plan.higher else margin > 0:
                return Prune(one.number)
        return Continue(one.number, rung + 1)
    return None


def _choose_in_step(
    plan: SearchPlan, trials: Sequence[Trial], alive: Sequence[Trial], *, idle: Sequence[Trial]
) -> Action | None:
    rung = min((len(one.reached) for one in alive), default=0) - 1
    if rung < 0:
        return None
    copies = [one for one in trials if one.copied_at == rung]
    share = _share(alive)
    if len(copies) < share:
        together = all(len(one.reached) == rung + 1 for one in alive) and len(idle) == len(alive)
        originals = [one for one in alive if one.copied_at != rung]
        return _exploit(plan, originals, rung, share=share) if together else None
    first = next((one for one in idle if len(one.reached) == rung + 1), None)
    return None if first is None else Continue(first.number, rung + 1)


def _share(alive: Sequence[Trial]) -> int:
    """Returns how many of a population are replaced at a rung."""
    return max(1, len(alive) // _REPLACED) if len(alive) > 1 else 0


def _exploit(plan: SearchPlan, originals: Sequence[Trial], rung: int, *, share: int) -> Copy:
    ranked = rank_trials(plan, originals, rung)
    worst = ranked[-1]
    rng = random.Random(f"{plan.seed} {rung} {worst.number}")
    parent = rng.choice(ranked[: min(share, len(ranked) - 1)])
    values = {one.key: one.perturb(parent.values[one.key], rng) for one in plan.space}
    return Copy(parent.number, worst.number, values)
