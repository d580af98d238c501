"""The trials of a search, in Optuna's journal: asked for, reported, and read back after a kill.

A trial is added to the journal when it is asked for, and its results as they become known. It stays
open while it may still be continued, since Optuna accepts no results of a trial that has ended. So
that a search that is killed and continued has the same trials as one that is not, each
trial is sampled by a sampler of its own, seeded by the search and the number of the trial, from the
values of all the trials before it.
"""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from pipeline import errors
from pipeline.tuning import journal
from pipeline.tuning.methods import BEST_PART, Trial
from pipeline.tuning.space import Parameter, Space, Values

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

SAMPLERS = ("random", "tpe")
# Trials that should be in the best part of a search before keys are compared, as Optuna advises.
_OF_BEST = 5
_NAME = "search"
_SETTINGS = "settings"
_FACTS = "rung-"
# The rung at which a trial is done.
_LAST = "last"
_STATES = {
    TrialState.RUNNING: "open",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


class Study:
    """A search in a journal."""

    def __init__(self, path: str, space: Space, settings: Mapping[str, Any]) -> None:
        """Opens the journal at `path`, or begins it. `settings` are what must be the same whenever
        it is continued, by name; "sampler", "seed" and "higher_is_better" are among them. Raises
        `UsageError` if they are not."""
        self._space = space
        self._distributions = {one.key: _build_distribution(one) for one in space}
        self._sampler, self._seed = str(settings["sampler"]), int(settings["seed"])
        direction = optuna.study.StudyDirection
        self._direction = direction.MAXIMIZE if settings["higher_is_better"] else direction.MINIMIZE
        self._storage = optuna.storages.JournalStorage(journal.Journal(path))
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=_NAME,
            direction=self._direction,
            load_if_exists=True,
        )
        self._id = self._storage.get_study_id_from_name(_NAME)
        known = self._study.user_attrs.get(_SETTINGS)
        if known is None:
            self._study.set_user_attr(_SETTINGS, dict(settings))
        else:
            _refuse_others(known, settings)
        self._finish()

    def trials(self) -> list[Trial]:
        """Returns all trials, by number."""
        return [self._build_trial(one) for one in self._study.get_trials(deepcopy=False)]

    def ask(self) -> Values:
        """Returns the values of the next trial."""
        number = len(self._study.get_trials(deepcopy=False))
        # Optuna's seeds are of 32 bits.
        seed = (self._seed * 1_000_003 + number) % 2**32
        sampler: optuna.samplers.BaseSampler = optuna.samplers.RandomSampler(seed=seed)
        if self._sampler == "tpe":
            sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        memory = self._copy_to_memory(sampler)
        return self._decode(memory.ask(self._distributions).params)

    def add(
        self,
        values: Values,
        *,
        run: str,
        parent: Trial | None = None,
        replaces: int | None = None,
    ) -> Trial:
        """Adds a trial that is to train up to its first rung, or a copy of `parent`, in a run of
        that name and the trial's number."""
        number = len(self._study.get_trials(deepcopy=False))
        reached = parent.reached if parent else ()
        # A copy's target is decided together with the others', when it continues.
        target = len(reached) - 1 if parent else 0
        attributes: dict[str, Any] = {"run": f"{run}-{number:03d}", "target": target}
        if parent is not None:
            attributes |= {
                "parent": parent.number,
                "replaces": replaces,
                "copied_at": len(reached) - 1,
            }
        self._study.add_trial(
            FrozenTrial(
                number=-1,
                trial_id=-1,
                state=TrialState.RUNNING,
                value=None,
                datetime_start=datetime.datetime.now(),
                datetime_complete=None,
                params={key: self._encode(key, value) for key, value in values.items()},
                distributions=self._distributions,
                user_attrs=attributes,
                system_attrs={},
                intermediate_values=dict(enumerate(reached)),
            )
        )
        return self.trials()[number]

    def aim(self, trial: Trial, rung: int) -> None:
        """Notes that a trial is to train up to a rung."""
        self._set(trial, "target", rung)

    def reach(self, trial: Trial, value: float, facts: Mapping[str, Any], *, last: bool) -> None:
        """Notes the value of a trial at the rung it was to reach; it is done if that is its
        `last`."""
        rung = trial.target
        self._set(trial, f"{_FACTS}{rung}", dict(facts))
        if last:
            self._set(trial, _LAST, rung)
        trial_id = self._find_trial_id(trial)
        self._storage.set_trial_intermediate_value(trial_id, rung, value)
        if last:
            self._study.tell(trial.number, value)

    def _finish(self) -> None:
        """Ends the trials of which a killed search has noted all but that they are done."""
        for one in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            last = one.user_attrs.get(_LAST)
            if last in one.intermediate_values:
                self._study.tell(one.number, one.intermediate_values[last])

    def prune(self, trial: Trial) -> None:
        """Notes that a trial makes no more steps."""
        self._study.tell(trial.number, state=TrialState.PRUNED)

    def fail(self, trial: Trial, error: str) -> None:
        """Notes that a trial has failed, and with what."""
        self._set(trial, "error", error)
        self._study.tell(trial.number, state=TrialState.FAIL)

    def importance(self) -> dict[str, float]:
        """Returns how much each key matters for the objective at the first rung, which most trials
        have reached; by PED-ANOVA (Watanabe et al., 2023), adding up to 1. Empty for so few trials
        that the best part of them, which is compared with all, would be less than five."""
        memory = self._copy_to_memory(None, rung=0)
        if len(self._space) < 2 or len(memory.trials) * BEST_PART < _OF_BEST:
            return {self._space[0].key: 1.0} if len(self._space) == 1 else {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST_PART)
        try:
            found = optuna.importance.get_param_importances(memory, evaluator=evaluator)
        except (RuntimeError, ValueError):  # all trials are alike
            return {}
        return {key: float(value) for key, value in found.items()}

    def _copy_to_memory(
        self, sampler: optuna.samplers.BaseSampler | None, *, rung: int | None = None
    ) -> optuna.Study:
        """Returns the trials as a study of their own: paused ones as Optuna's samplers take them,
        or all of them by their value at a rung."""
        memory = optuna.create_study(sampler=sampler, direction=self._direction)
        for one in self._study.get_trials(deepcopy=False):
            values = one.intermediate_values
            if rung is None and one.state in (TrialState.RUNNING, TrialState.PRUNED):
                memory.add_trial(
                    _copy_trial(one, TrialState.PRUNED if values else TrialState.RUNNING)
                )
            elif rung is None:
                memory.add_trial(_copy_trial(one, one.state, one.value))
            elif rung in values and one.state != TrialState.FAIL:
                memory.add_trial(_copy_trial(one, TrialState.COMPLETE, values[rung]))
        return memory

    def _build_trial(self, one: FrozenTrial) -> Trial:
        attributes = one.user_attrs
        return Trial(
            number=one.number,
            values=self._decode(one.params),
            run=attributes["run"],
            reached=tuple(one.intermediate_values[n] for n in sorted(one.intermediate_values)),
            target=attributes["target"],
            state=_STATES[one.state],  # type: ignore[arg-type]
            parent=attributes.get("parent"),
            replaces=attributes.get("replaces"),
            copied_at=attributes.get("copied_at", -1),
            error=attributes.get("error", ""),
            facts={
                int(name.removeprefix(_FACTS)): value
                for name, value in attributes.items()
                if name.startswith(_FACTS)
            },
        )

    def _find_trial_id(self, trial: Trial) -> int:
        return int(self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number))

    def _set(self, trial: Trial, name: str, value: Any) -> None:
        self._storage.set_trial_user_attr(self._find_trial_id(trial), name, value)

    def _decode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            one.key: json.loads(params[one.key])
            if one.choices
            else one.round_value(params[one.key])
            for one in self._space
        }

    def _encode(self, key: str, value: Any) -> Any:
        categorical = isinstance(self._distributions[key], CategoricalDistribution)
        return json.dumps(value) if categorical else value


def _copy_trial(one: FrozenTrial, state: TrialState, value: float | None = None) -> FrozenTrial:
    ended = state is not TrialState.RUNNING
    return FrozenTrial(
        number=-1,
        trial_id=-1,
        state=state,
        value=value,
        datetime_start=one.datetime_start,
        datetime_complete=(one.datetime_complete or one.datetime_start) if ended else None,
        params=one.params,
        distributions=one.distributions,
        user_attrs={},
        system_attrs={},
        intermediate_values=one.intermediate_values,
    )


def _build_distribution(parameter: Parameter) -> BaseDistribution:
    """Returns Optuna's form of a parameter; choices are JSON, since Optuna's must not be lists."""
    if parameter.choices:
        return CategoricalDistribution([json.dumps(one) for one in parameter.choices])
    low, high, log = parameter.low, parameter.high, parameter.log
    if parameter.whole:
        step = int(parameter.step or 1)
        return IntDistribution(int(low), int(high), log=log, step=step)
    return FloatDistribution(low, high, log=log, step=parameter.step)


def _refuse_others(known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises `UsageError` if a search was begun with other settings, with those that differ."""
    before, now = json.loads(json.dumps(known)), json.loads(json.dumps(given))
    differing = []
    for name in [*before, *(name for name in now if name not in before)]:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            keys = dict.fromkeys([*old, *new])
            differing += [
                f"{name} {key}: {old.get(key)} -> {new.get(key)}"
                for key in keys
                if old.get(key) != new.get(key)
            ]
        elif old != new:
            differing.append(f"{name}: {old} -> {new}")
    if differing:
        raise errors.UsageError(
            f"the search was begun otherwise ({'; '.join(differing)}): use another RUN= for this "
            "one"
        )
