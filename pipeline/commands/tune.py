"""Searches for settings of a config: trains trials, and stops those early that are not worth it.

    estimator-pipeline tune --config=flights --space=space.yaml --trials=30 --parallel=2
    make tune CONFIG=flights SPACE=space.yaml [TRIALS=30] [PARALLEL=1] [METHOD=asha] [SAMPLER=tpe]

Each trial is a run, paused at its rungs and continued only if its method says so. The search is in
<storage>/tune/<name>: the same command continues it with the same trials, more of them if --trials
is larger. Writes tune.html and tune.json there. Needs Optuna.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from absl import flags

from pipeline import cli, config, errors, places, storage, versions
from pipeline.cluster import topology
from pipeline.config import config_file, own_input
from pipeline.console import terminal
from pipeline.jobs import job as jobs
from pipeline.launchers import base
from pipeline.records import builds, manifest
from pipeline.runs import run_folder, run_lock
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import gcs_preflight, strict_json
from pipeline.tuning import page, result, search, space, trial_jobs
from pipeline.tuning.methods import METHODS, SearchPlan, Trial
from pipeline.tuning.trial_process import RunningTrial, TrialProcess

if TYPE_CHECKING:
    from pipeline.tuning.study import Study

_USUAL_REDUCTION = 3
_CONFIG, _SET = cli.config_flags()
_SPACE = flags.DEFINE_string(
    "space", None, "YAML file: keys of the config, and the values to try.", required=True
)
_TRIALS = flags.DEFINE_integer("trials", 30, "How many trials.", lower_bound=1)
_PARALLEL = flags.DEFINE_integer("parallel", 1, "How many train at a time.", lower_bound=1)
_METHOD = flags.DEFINE_enum("method", "asha", METHODS, "Which trials are continued at a rung.")
_SAMPLER = flags.DEFINE_enum("sampler", "random", ("random", "tpe"), "How values are chosen.")
_SEED = flags.DEFINE_integer("seed", 1, "Decides the values that are tried.", lower_bound=0)
_RUNGS = flags.DEFINE_integer(
    "rungs", None, "How often a trial may be stopped, the end included; not of full.", lower_bound=1
)
_REDUCTION = flags.DEFINE_integer(
    "reduction",
    None,
    f"With asha, one of so many trials advances to the next rung. Default: {_USUAL_REDUCTION}.",
    lower_bound=2,
)
_CLUSTER = cli.place_flag(places.list_training())
_RUN = flags.DEFINE_string("run", None, "Name of the search. Default: named after the config.")
_STORAGE = cli.storage_flag()
_STRATEGY, _WORKERS, _PS = cli.cluster_flags()
_DRY_RUN = cli.dry_run_flag()

_FOLDER, _JOURNAL, _CONFIG_FILE = "tune", "journal.jsonl", "config.yaml"
_RESULT = "tune.json"
# `median` and `pbt` have few rungs, as each costs a start of the trial.
_USUAL_RUNGS = {"asha": 3, "median": 4, "pbt": 4, "full": 1}
# What a tag may be, too.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,35}")


@dataclasses.dataclass(frozen=True)
class _SearchRequest:
    """What is asked, checked: the job and the settings `given` for it, the plan of the search, and
    its name and folder."""

    job: jobs.Job
    given: Sequence[str]
    plan: SearchPlan
    name: str
    folder: str


def main() -> None:
    """Checks what is asked, runs the search, and writes its result."""
    versions.require_estimators()
    _require_optuna()
    asked = _read_request()
    launcher = base.choose(_CLUSTER.value)
    if launcher.is_array(asked.job):
        raise errors.UsageError(
            f"{_CLUSTER.value}.array: a trial is one run. Take it out of the config, or set "
            f'SET="{_CLUSTER.value}.array=null"; --parallel is how many trials train at a time'
        )
    if _DRY_RUN.value:
        if _CLUSTER.value != places.HERE:
            launcher.show(asked.job)  # refuses what cannot run there
        print("\n".join(_describe(asked)))
        if asked.job.config.train.epochs is None:
            print(f"rungs: {', '.join(f'{n:,}' for n in _rungs(asked))} examples")
        return
    gcs_preflight.check(asked.job.storage_root)
    launcher.require(asked.job)  # each trial would fail by it
    storage.makedirs(asked.folder)
    with run_lock.hold(RunFolder(asked.folder)):
        _keep_config(asked)
        _preprocess(asked)
        _search(asked, _rungs(asked))


def _require_optuna() -> None:
    if importlib.util.find_spec("optuna") is None:
        raise errors.UsageError(
            "tune needs Optuna, which is not installed: pip install 'estimator-pipeline[tune]'; in "
            "a checkout, the target tune of make installs it"
        )


def _read_request() -> _SearchRequest:
    short = jobs.cluster_overrides(_STRATEGY.value, _WORKERS.value, _PS.value)
    given = [*_SET.value, *short]
    job = jobs.plan(_CONFIG.value, given, run=None, storage_root=_STORAGE.value, look=False)
    if _CLUSTER.value != places.HERE:
        own_input.refuse(job.config, f"--cluster={_CLUSTER.value}", instead="tune it here")
    _refuse_ends(job.config)
    load = functools.partial(_load, given)
    found = space.read(_SPACE.value, load)
    _refuse_unused()
    plan = SearchPlan(
        method=_METHOD.value,
        trials=_TRIALS.value,
        rungs=1 if _METHOD.value == "full" else _RUNGS.value or _USUAL_RUNGS[_METHOD.value],
        reduction=_REDUCTION.value or _USUAL_REDUCTION,
        seed=_SEED.value,
        higher=job.config.eval.higher_is_better,
        space=found,
    )
    if plan.method == "pbt":
        trial_jobs.refuse_unresumable(found, load)
    name = _RUN.value or f"{job.config.name[:20]}-tune-{job.name[-8:]}"
    if not _NAME.fullmatch(name):
        raise errors.UsageError(
            f"--run {name!r}: the name of a search must be up to 36 lower-case letters, digits, "
            "'.', '_' and '-', beginning with a letter or digit"
        )
    folder = storage.join(job.storage_root, _FOLDER, name)
    return _SearchRequest(job=job, given=given, plan=plan, name=name, folder=folder)


def _refuse_ends(job: config.Config) -> None:
    """Raises `UsageError` for settings by which a trial would end before its rung."""
    for key in space.ENDS:
        if getattr(job.train, key.removeprefix("train.")) is not None:
            raise errors.UsageError(
                f"{key}: the search decides how long trials train, and this ends them earlier; "
                f'take it out of the config, or set SET="{key}=null"'
            )


def _refuse_unused() -> None:
    """Raises `UsageError` for flags that the method has no use for."""
    if _RUNGS.value is not None and _METHOD.value == "full":
        raise errors.UsageError("--rungs: method full has none; use asha, median or pbt")
    if _REDUCTION.value is not None and _METHOD.value != "asha":
        raise errors.UsageError(f"--reduction: is of method asha, and this is {_METHOD.value}")


def _load(given: Sequence[str], settings: Sequence[str]) -> config.Config:
    together = [*given, *settings]
    return jobs.plan(
        _CONFIG.value, together, run=None, storage_root=_STORAGE.value, look=False
    ).config


def _describe(asked: _SearchRequest) -> list[str]:
    plan = asked.plan
    return [
        f"search {asked.name}: {plan.trials} trials of {asked.job.config.name}, method "
        f"{plan.method}, {plan.rungs} {'rung' if plan.rungs == 1 else 'rungs'}, sampler "
        f"{_SAMPLER.value}, seed {plan.seed}",
        *(f"{one.key}: {space.text(one.to_json())}" for one in plan.space),
    ]


def _keep_config(asked: _SearchRequest) -> None:
    """Writes the config that all trials are variants of. Raises `UsageError` if the search was
    begun with another one."""
    path = storage.join(asked.folder, _CONFIG_FILE)
    if not storage.exists(storage.join(asked.folder, _JOURNAL)):
        storage.write_text(path, config_file.dump(asked.job.config))
        return
    differing = jobs.differences(config_file.load(path), asked.job.config)
    if differing:
        raise errors.UsageError(
            f"search {asked.name!r} was begun with another config ({'; '.join(differing)}): use "
            "another RUN= for this one"
        )


def _preprocess(asked: _SearchRequest) -> None:
    """Makes the records once, before several trials need them."""
    if not _makes_records(asked):
        return
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pipeline",
            "preprocess",
            f"--config={storage.join(asked.folder, _CONFIG_FILE)}",
            f"--storage={asked.job.storage_root}",
        ],
        check=False,
    )
    if done.returncode:
        raise errors.ReportedError(done.returncode)


def _makes_records(asked: _SearchRequest) -> bool:
    """True if the search makes the records; elsewhere trials see to it."""
    return _CLUSTER.value == places.HERE and asked.job.config.data.has_records


def _records(asked: _SearchRequest) -> manifest.Manifest:
    folder = run_folder.records_folder(asked.job.storage_root, asked.job.config.name)
    return manifest.read(builds.find_current(folder))


def _rungs(asked: _SearchRequest) -> tuple[int, ...]:
    """Returns the examples at each rung. Raises `UsageError` if the first is less than a step."""
    job, plan = asked.job, asked.plan
    records = None
    if job.config.train.epochs is not None:
        records = _records(asked).split("train").records
    whole = trial_jobs.compute_full_length(job.config, records)
    if plan.method == "asha":
        shares = [1 / plan.reduction ** (plan.rungs - 1 - rung) for rung in range(plan.rungs)]
    else:
        shares = [(rung + 1) / plan.rungs for rung in range(plan.rungs)]
    batch = topology.examples_per_step(job.config)
    if whole * shares[0] < batch:
        raise errors.UsageError(
            f"--rungs={plan.rungs}: {whole:,} examples are too few for so many: the first rung "
            f"would be {whole * shares[0]:,.0f} examples, less than a batch of {batch:,}"
        )
    return tuple(math.ceil(round(whole * share, 6)) for share in shares)


def _search(asked: _SearchRequest, rungs: tuple[int, ...]) -> None:
    from pipeline.tuning.study import Study  # with Optuna, which need not be there

    job, plan = asked.job, asked.plan
    study = Study(
        storage.join(asked.folder, _JOURNAL),
        plan.space,
        {
            "space": {one.key: one.to_json() for one in plan.space},
            "method": plan.method,
            "sampler": _SAMPLER.value,
            "seed": plan.seed,
            "rungs": [*rungs],
            "reduction": plan.reduction,
            "metric": job.config.eval.metric,
            "higher_is_better": plan.higher,
        },
    )
    trial_jobs.refuse_others(job.storage_root, asked.name, study.trials())
    if _makes_records(asked):
        trial_jobs.refuse_other_records(_records(asked).sha256, asked.name, study.trials())
    trials = trial_jobs.TrialJobs(
        config_path=storage.join(asked.folder, _CONFIG_FILE),
        job=job.config,
        storage_root=job.storage_root,
        cluster=_CLUSTER.value,
        rungs=rungs,
        tag=asked.name,
    )
    with contextlib.ExitStack() as stack:
        if storage.is_remote(asked.folder):
            made = tempfile.TemporaryDirectory(prefix="estimator-pipeline-tune-")
            logs = stack.enter_context(made)
        else:
            logs = storage.join(asked.folder, "logs")
            os.makedirs(logs, exist_ok=True)

        def launch(trial: Trial, words: Sequence[str]) -> RunningTrial:
            return TrialProcess(words, os.path.join(logs, f"trial-{trial.number:03d}.log"))

        _run(asked, study, trials, launch=launch)


def _run(
    asked: _SearchRequest,
    study: Study,
    trials: trial_jobs.TrialJobs,
    *,
    launch: Callable[[Trial, Sequence[str]], RunningTrial],
) -> None:
    """Searches, and writes what came of it by then, however it ends."""
    metric = asked.job.config.eval.metric
    one = search.Search(
        asked.plan,
        study,
        trials,
        name=asked.name,
        metric=metric,
        parallel=_PARALLEL.value,
        launch=launch,
    )
    print("\n".join(_describe(asked)), flush=True)
    try:
        one.run()
    finally:
        found = _result(asked, study, trials)
        path = storage.join(asked.folder, _RESULT)
        storage.write_text(path, strict_json.dumps(found.to_json(), indent=1) + "\n")
        page_path = storage.join(asked.folder, page.FILE_NAME)
        storage.write_text(page_path, page.render(found, asked.job.storage_root))
        print(
            "\n".join([*result.lines(found), f"page     {terminal.display_path(page_path)}"]),
            flush=True,
        )
    if found.best is None:
        last = next((trial.error for trial in reversed(found.trials) if trial.error), "")
        code = (one.failure or errors.ModelError).exit_code
        raise errors.build_from_exit_code(
            code,
            f"all trials of {asked.name} have failed, the last with: {last}. They are not tried "
            "again; once that is fixed, use another RUN=",
        )


def _result(
    asked: _SearchRequest, study: Study, trials: trial_jobs.TrialJobs
) -> result.SearchResult:
    found = result.SearchResult(
        name=asked.name,
        config=asked.job.config.name,
        metric=asked.job.config.eval.metric,
        plan=asked.plan,
        sampler=_SAMPLER.value,
        rungs=trials.rungs,
        trials=study.trials(),
        importance=study.importance(),
        examples=search.examples(study.trials(), trials.examples_at),
        config_given=_CONFIG.value,
        elsewhere="" if _STORAGE.value == "output" else f" STORAGE={shlex.quote(_STORAGE.value)}",
    )
    if found.best is None:
        return found
    last = {one.partition("=")[0]: one for one in (*asked.given, *trials.settings(found.best))}
    return dataclasses.replace(found, settings=[*last.values()])


if __name__ == "__main__":
    cli.run(main)
