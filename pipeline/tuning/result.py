"""What came of a search: for `tune.json`, for the page, and in lines."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.command_line import hints
from pipeline.console.figures import figure
from pipeline.tuning import methods, trial_jobs
from pipeline.tuning.methods import SearchPlan, Trial


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """A search: what was asked, its trials, how much each key matters, by key, and on how many
    `examples` all trials have been trained.

    `settings` are those that make the best trial again, and `best` may be missing: no trial has
    reached a rung. `elsewhere` is what a command on the runs needs besides, such as STORAGE=.
    """

    name: str
    config: str
    metric: str
    plan: SearchPlan
    sampler: str
    rungs: tuple[int, ...]
    trials: Sequence[Trial]
    importance: Mapping[str, float]
    examples: int = 0
    settings: Sequence[str] = ()
    config_given: str = ""
    elsewhere: str = ""

    @property
    def best(self) -> Trial | None:
        """The best trial of those that have come farthest."""
        return methods.find_best(self.plan, self.trials)

    def state(self, trial: Trial) -> str:
        """What came of a trial: `done`, `failed`, `paused` at a rung, `pruned` there by its method,
        `replaced` by a copy of a better one, or `begun`, before its first rung."""
        if trial.state != "open":
            return trial.state
        if any(one.replaces == trial.number for one in self.trials):
            return "replaced"
        return "paused" if trial.reached else "begun"

    @property
    def note(self) -> str:
        """How the best trial differs from its settings trained from the start; may be empty."""
        best = self.best
        if best is None:
            return ""
        if best.parent is not None:
            return (
                f"trial {best.number} began as a copy of trial {best.parent}, which had other "
                "settings, and only its run has its model: these settings alone do not make it"
            )
        if len(best.reached) > 1 or best.interrupted:
            return (
                "trained without pauses, records come in another order, so that the result may "
                "differ as between two seeds"
            )
        return ""

    @property
    def command(self) -> str:
        """The command that trains the best trial from the start, as a run of its own."""
        given = shlex.quote(" ".join(self.settings))
        return f"make train CONFIG={shlex.quote(self.config_given)} SET={given}{self.elsewhere}"

    @property
    def flags(self) -> str:
        """The same settings as flags of `estimator-pipeline`."""
        return " ".join(f"--set={shlex.quote(one)}" for one in self.settings)

    def to_json(self) -> dict[str, Any]:
        """Returns the result for machines."""
        best = self.best
        return {
            "name": self.name,
            "config": self.config,
            "metric": self.metric,
            "higher_is_better": self.plan.higher,
            "method": self.plan.method,
            "sampler": self.sampler,
            "seed": self.plan.seed,
            "space": {one.key: one.to_json() for one in self.plan.space},
            "rungs": [*self.rungs],
            "examples": self.examples,
            "best": None
            if best is None
            else {
                "trial": best.number,
                "run": best.run,
                "value": best.reached[-1],
                "rung": len(best.reached),
                "values": dict(best.values),
                "settings": [*self.settings],
                "command": self.command,
                "note": self.note or None,
            },
            "importance": dict(self.importance),
            "records": [dataclasses.asdict(one) for one in compare_records(self)],
            "trials": [
                trial_jobs.to_json(one, self.rungs, state=self.state(one)) for one in self.trials
            ],
        }


@dataclasses.dataclass(frozen=True)
class SameRecords:
    """What the ledgers of the trials at a rung say: how many `trials` there were, how many of them
    have a ledger, and how many `different` ledgers these are. One means that all of them were
    trained on the same records, each as often. `examples` are the fewest and the most that one of
    them was trained on: those of asynchronous workers stop a step or two apart."""

    rung: int
    trials: int
    counted: int
    different: int
    examples: tuple[int, int]

    def __str__(self) -> str:
        where = f"rung {self.rung}"
        if not self.counted:
            return f"{where}: the input of these trials is not counted"
        if self.counted == 1:
            return f"{where}: one trial, with a ledger"
        if self.different == 1:
            return f"{where}: all {self.counted} ledgers are equal: trained on the same records"
        fewest, most = self.examples
        apart = f", which stopped after {fewest:,} to {most:,} examples" if fewest < most else ""
        return f"{where}: {self.different} different ledgers of {self.counted} trials{apart}"


def compare_records(result: SearchResult) -> list[SameRecords]:
    """Returns what the ledgers say, for each rung that a trial has reached by itself."""
    found = []
    for rung in range(len(result.rungs)):
        facts = [one.facts[rung] for one in result.trials if rung in one.facts]
        digests = [one["input_sha256"] for one in facts if one.get("input_sha256")]
        if facts:
            made = [int(str(one["examples"])) for one in facts]
            found.append(
                SameRecords(
                    rung + 1, len(facts), len(digests), len(set(digests)), (min(made), max(made))
                )
            )
    return found


def lines(result: SearchResult) -> list[str]:
    """Returns the result for people."""
    states = [result.state(one) for one in result.trials]
    paused = sum(state in ("paused", "pruned") for state in states)
    counts = f"{states.count('done')} trained to the end, {paused} paused"
    for other in ("begun", "replaced", "failed"):
        counts += f", {states.count(other)} {other}" if other in states else ""
    if early := sum(
        state == "done" and len(one.reached) < len(result.rungs)
        for one, state in zip(result.trials, states, strict=True)
    ):
        counts += f"; {early} of them stopped early"
    found = [f"{len(result.trials)} trials: {counts}; {result.examples:,} examples"]
    found += [str(one) for one in compare_records(result)]
    best = result.best
    if best is not None:
        found += [
            f"best     {result.metric} {figure(best.reached[-1])}, trial {best.number}, run "
            f"{best.run}",
            f"again    {hints.format_as_typed(result.command)}",
            *([f"         {result.note}"] if result.note else []),
        ]
    return found
