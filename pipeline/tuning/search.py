"""The search: starts and ends trials as the method says, and notes what they reach."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pipeline import errors
from pipeline.console.figures import figure
from pipeline.console.progress import Progress
from pipeline.tuning import methods, space
from pipeline.tuning.methods import Begin, Continue, Copy, Prune, SearchPlan, Trial
from pipeline.tuning.trial_jobs import Reached
from pipeline.tuning.trial_process import RunningTrial

if TYPE_CHECKING:
    from pipeline.tuning.study import Study

_POLL = 0.2  # seconds
_REPORT = 2.0  # seconds between two looks at how far trials are
# Starts of a trial, each of which was hit by something outside, after which the search ends.
_ATTEMPTS = 3
# Trials that fail in a row, since the command was given, after which it ends.
_FAILURES = 5


class Jobs(Protocol):
    """What a search needs to know of runs: see `trial_jobs.TrialJobs`."""

    @property
    def rungs(self) -> tuple[int, ...]:
        """Examples at each rung."""

    def command(self, trial: Trial, rung: int) -> list[str]:
        """Returns the words that take a trial up to a rung."""

    def examples_at(self, trial: Trial) -> int:
        """Returns how many examples a trial has been trained on."""

    def examples_per_step(self, trial: Trial) -> int:
        """Returns how many examples a step of a trial takes."""

    def find_saved_step(self, trial: Trial) -> int:
        """Returns the step that a trial continues from."""

    def prepare(self, trial: Trial, parent: Trial | None) -> None:
        """Makes the run of a trial ready."""

    def read_reached(self, trial: Trial) -> Reached:
        """Returns what the run of a trial has come to."""


@dataclasses.dataclass
class _Running:
    trial: Trial
    process: RunningTrial
    began: float


class Search:
    """Trains the trials of a plan, some at a time, until there is nothing left to do."""

    def __init__(
        self,
        plan: SearchPlan,
        study: Study,
        jobs: Jobs,
        *,
        name: str,
        metric: str,
        parallel: int,
        launch: Callable[[Trial, Sequence[str]], RunningTrial],
        say: Callable[[str], None] = lambda line: print(line, flush=True),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan, self._study, self._jobs = plan, study, jobs
        self._name, self._metric, self._parallel = name, metric, parallel
        self._launch, self._say, self._clock, self._sleep = launch, say, clock, sleep
        self._running: dict[int, _Running] = {}
        self._attempts: dict[tuple[int, int], int] = {}
        self._interrupted: dict[int, list[int]] = collections.defaultdict(list)
        self._failures = 0
        self._reported = 0.0
        self.failure: errors.PipelineError | None = None  # the newest of a trial

    def run(self) -> list[Trial]:
        """Runs to the end and returns all trials. Raises `StoppedError` when it was interrupted,
        `RetryableError` when trials are hit from outside again and again, and the error of the last
        trial if several in a row have failed."""
        with Progress(
            "tuning", count_planned_examples(self._plan, self._jobs.rungs), unit="examples"
        ) as shown:
            try:
                self._finish_copies()
                shown.begin_at(self._count_examples(self._study.trials()))
                while self._step():
                    self._report(shown)
                    self._sleep(_POLL)
            except KeyboardInterrupt:
                self._end()
                done, wanted = self._count_trials()
                raise errors.StoppedError(
                    f"stopped with {done} of {wanted} trials done. Run the same command to resume."
                ) from None
            except BaseException:
                self._end()
                raise
        return self._study.trials()

    def _finish_copies(self) -> None:
        """Makes the copies that a killed search had decided on. No trial has trained on since."""
        trials = self._study.trials()
        for one in trials:
            if one.state == "open" and one.parent is not None and not one.facts:
                self._jobs.prepare(one, trials[one.parent])

    def _step(self) -> bool:
        """Notes what has ended and starts what can be; false when all is done."""
        for one in list(self._running.values()):
            code = one.process.poll()
            if code is not None:
                del self._running[one.trial.number]
                self._note_end(one, code)
        while len(self._running) < self._parallel:
            trials = self._study.trials()
            action = methods.choose_next_action(self._plan, trials, self._running)
            if action is None:
                break
            self._do(action, trials)
        return bool(self._running)

    def _do(self, action: methods.Action, trials: Sequence[Trial]) -> None:
        if isinstance(action, Begin):
            trial = self._study.add(self._study.ask(), run=self._name)
            self._start(trial, trials)
        elif isinstance(action, Prune):
            self._study.prune(trials[action.number])
            self._say(f"trial {action.number}: worse than the median, so it is not continued")
        elif isinstance(action, Copy):
            parent = trials[action.parent]
            made = self._study.add(
                action.values, run=self._name, parent=parent, replaces=action.replaces
            )
            self._jobs.prepare(made, parent)
            self._say(
                f"trial {made.number}: a copy of trial {parent.number} in place of trial "
                f"{action.replaces}, with {_format_settings(made)}"
            )
        else:
            assert isinstance(action, Continue)
            trial = trials[action.number]
            if trial.target != action.rung:
                self._study.aim(trial, action.rung)
                trial = self._study.trials()[action.number]
            self._start(trial, trials)

    def _start(self, trial: Trial, trials: Sequence[Trial]) -> None:
        parent = None if trial.parent is None else trials[trial.parent]
        try:
            words = self._jobs.command(trial, trial.target)
            self._jobs.prepare(trial, parent)
        except (errors.UsageError, errors.DataError) as error:  # values that do not go together
            self._fail(trial, error)
            return
        self._note_interrupted(trial)
        process = self._launch(trial, words)
        self._running[trial.number] = _Running(trial, process, self._clock())

    def _note_interrupted(self, trial: Trial) -> None:
        step, newest = self._jobs.find_saved_step(trial), trial.facts.get(len(trial.reached) - 1)
        paused_at = newest["step"] if newest else None if trial.reached else 0
        if paused_at not in (None, step):
            self._interrupted[trial.number].append(step)

    def _note_end(self, one: _Running, code: int) -> None:
        trial = one.trial
        if code == 0:
            found = self._jobs.read_reached(trial)
            others = {t.number: t.manifest for t in self._study.trials() if t.manifest}
            number = next((n for n, x in others.items() if x != found.manifest), None)
            if found.error:
                self._fail(trial, errors.ModelError(found.error))
            elif found.manifest and number is not None:
                why = f"its records are not those of trial {number}, as the raw data has changed"
                self._fail(trial, errors.DataError(why))
            else:
                self._reach(one, found)
        elif code == errors.RetryableError.exit_code or code < 0:
            self._retry(trial, code, one.process.error())
        else:
            self._fail(trial, errors.build_from_exit_code(code, one.process.error()))

    def _reach(self, one: _Running, found: Reached) -> None:
        trial, self._failures = one.trial, 0
        facts = {
            "step": found.step,
            "examples": found.step * self._jobs.examples_per_step(trial),
            "seconds": round(self._clock() - one.began, 1),
            "input_sha256": found.input_sha256,
            "manifest": found.manifest,
            "interrupted": self._interrupted.pop(trial.number, []),
        }
        last = trial.target == self._plan.rungs - 1 or not found.paused
        self._study.reach(trial, found.value, facts, last=last)
        state = "done" if last else f"paused at rung {trial.target + 1} of {self._plan.rungs}"
        self._say(
            f"trial {trial.number}: {self._metric} {figure(found.value)} at step {found.step:,}, "
            f"{state} ({_format_settings(trial)})"
        )

    def _retry(self, trial: Trial, code: int, error: str) -> None:
        """Leaves a trial to be started again, unless that has been done often."""
        key = trial.number, trial.target
        self._attempts[key] = self._attempts.get(key, 0) + 1
        if self._attempts[key] < _ATTEMPTS:
            self._say(f"trial {trial.number}: {error}; starting it again")
            return
        if code < 0:
            self._fail(trial, errors.ModelError(f"killed by signal {-code} {_ATTEMPTS} times"))
            return
        raise errors.RetryableError(
            f"trial {trial.number} (run {trial.run}) was stopped {_ATTEMPTS} times: {error}"
        )

    def _fail(self, trial: Trial, error: errors.PipelineError) -> None:
        self._study.fail(trial, str(error))
        self._failures += 1
        self.failure = error
        self._say(f"trial {trial.number}: failed: {error} ({_format_settings(trial)})")
        if self._failures == _FAILURES:
            raise errors.build_from_exit_code(
                error.exit_code,
                f"{_FAILURES} trials in a row have failed, the last one, run {trial.run}, with: "
                f"{error}",
            )

    def _end(self) -> None:
        """Asks all trials to save and to end, and waits until they have; an interrupt ends them at
        once."""
        try:
            for one in self._running.values():
                one.process.stop()
            while any(one.process.poll() is None for one in self._running.values()):
                self._sleep(_POLL)
        except KeyboardInterrupt:
            for one in self._running.values():
                one.process.kill()

    def _count_trials(self) -> tuple[int, int]:
        trials = self._study.trials()
        running = {one.trial.number for one in self._running.values()}
        done = sum(bool(t.reached or t.error) for t in trials if t.number not in running)
        return done, max(self._plan.trials, len(trials))

    def _report(self, shown: Progress) -> None:
        now = self._clock()
        if now - self._reported < _REPORT and self._reported:
            return
        self._reported = now
        trials = self._study.trials()
        done, wanted = self._count_trials()
        notes = [f"{done} of {wanted} trials"]
        best = methods.find_best(self._plan, trials)
        if best is not None:
            notes.append(f"best {self._metric} {figure(best.reached[-1])} (trial {best.number})")
        # Trials make whole batches, which may be a little more than is planned.
        most = count_planned_examples(self._plan, self._jobs.rungs, trials)
        shown.expect(most)
        shown.reach(min(most, max(shown.done, self._count_examples(trials))), *notes)

    def _count_examples(self, trials: Sequence[Trial]) -> int:
        total = examples(trials)
        for one in self._running.values():
            reached = one.trial.reached
            before = self._jobs.rungs[len(reached) - 1] if reached else 0
            total += max(0, self._jobs.examples_at(one.trial) - before)
        return total


def _format_settings(trial: Trial) -> str:
    return " ".join(space.settings(trial.values))


def examples(trials: Sequence[Trial], at: Callable[[Trial], int] = lambda _: 0) -> int:
    """Returns on how many examples trials have been trained up to their rungs, or `at` which they
    are by now. Those that a copy has from its parent are not its own."""
    total = 0
    for one in trials:
        made = max(at(one), *(facts["examples"] for facts in one.facts.values()), 0)
        total += max(0, made - _count_inherited(one, trials))
    return total


def _count_inherited(trial: Trial, trials: Sequence[Trial]) -> int:
    """Returns the examples a copy begins with: those of its parent, or its parent's."""
    if trial.parent is None:
        return 0
    parent = trials[trial.parent]
    facts = parent.facts.get(trial.copied_at)
    return int(facts["examples"]) if facts else _count_inherited(parent, trials)


def count_planned_examples(
    plan: SearchPlan, rungs: Sequence[int], trials: Sequence[Trial] = ()
) -> int:
    """Returns on how many examples the trials of a plan are trained, without what those of `trials`
    leave out that have failed or are not continued."""
    ended = collections.Counter(
        len(one.reached) for one in trials if one.state in ("failed", "pruned")
    )
    total, below, count = 0, 0, plan.trials
    for number, rung in enumerate(rungs):
        if number and plan.method == "asha":
            count = max(1, count // plan.reduction)
        count = max(0, count - ended[number])
        total += count * (rung - below)
        below = rung
    return total
