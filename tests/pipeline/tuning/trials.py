"""A search on trials that are not trained: what a value reaches is a formula of its settings."""

from __future__ import annotations

import math
import pathlib

from pipeline.tuning import search, study
from pipeline.tuning.methods import SearchPlan
from pipeline.tuning.space import Parameter
from pipeline.tuning.trial_jobs import Reached

RATE = Parameter("train.optimizer.learning_rate", low=1e-4, high=1e-1, log=True)
UNITS = Parameter("model.params.hidden_units", choices=([16], [64], [128, 64]))
SPACE = (RATE, UNITS)
EXAMPLES = (1000, 3000, 9000)


def plan(method="asha", trials=9, *, rungs=3, seed=5, higher=True):
    """Returns a plan over `SPACE`."""
    return SearchPlan(method, trials, rungs, 3, seed=seed, higher=higher, space=SPACE)


def open_journal(folder: pathlib.Path, wanted: SearchPlan, *, sampler="random"):
    """Opens the journal of a plan, as a new process would."""
    settings = {
        "space": {one.key: one.to_json() for one in wanted.space},
        "sampler": sampler,
        "seed": wanted.seed,
        "higher_is_better": wanted.higher,
    }
    return study.Study(str(folder / "journal.jsonl"), wanted.space, settings)


def value(values, rung):
    """Best is a rate of 0.01 with the largest network; all become better from rung to rung."""
    rate = values[RATE.key]
    return 1.0 - 0.2 * abs(math.log10(rate) + 2) + 0.01 * len(values[UNITS.key]) + 0.02 * rung


class FakeProcess:
    """A trial that takes a look or two; it ends with a code of its own."""

    def __init__(self, looks=1, code=0, error=""):
        self._looks, self._code, self._error = looks, code, error
        self.stopped = self.killed = False

    def poll(self):
        self._looks -= 1
        if self.stopped:
            return 75
        return self._code if self._looks < 0 else None

    def stop(self):
        self.stopped = True

    def kill(self):
        self.killed = True

    def error(self):
        return self._error


class FakeJobs:
    """Runs that are trained in no time; `broken` maps numbers of trials to errors they have, and
    `records` to what they are trained on; `more` are steps that each makes beyond a rung."""

    rungs = EXAMPLES

    def __init__(self, broken=None, records=None, more=0):
        self.broken, self.records, self.more = broken or {}, records or {}, more
        self.commands, self.copies, self.saved = [], [], {}

    def command(self, trial, rung):
        self.commands.append((trial.number, rung))
        return [f"--run={trial.run}"]

    def examples_at(self, trial):
        return 0

    def find_saved_step(self, trial):
        return self.saved.get(trial.number, 0)

    def examples_per_step(self, trial):
        return 10

    def prepare(self, trial, parent):
        if parent is not None and trial.number not in dict(self.copies):
            self.copies.append((trial.number, parent.number))
            self.saved[trial.number] = self.find_saved_step(parent)

    def read_reached(self, trial):
        if trial.number in self.broken:
            return Reached(error=self.broken[trial.number])
        rung = trial.target
        self.saved[trial.number] = EXAMPLES[rung] // 10 + self.more
        return Reached(
            value=value(trial.values, rung),
            step=self.saved[trial.number],
            paused=rung < len(EXAMPLES) - 1,
            input_sha256=f"rung {rung}",
            manifest=self.records.get(trial.number, "first"),
        )


def run_search(folder, wanted, jobs, *, launch=None, parallel=1, said=None, sampler="random"):
    """Runs a search over the journal in a folder and returns the trials."""
    return search.Search(
        wanted,
        open_journal(folder, wanted, sampler=sampler),
        jobs,
        name="s",
        metric="auc",
        parallel=parallel,
        launch=launch or (lambda trial, words: FakeProcess()),
        say=(said if said is not None else []).append,
        sleep=lambda seconds: None,
    ).run()
