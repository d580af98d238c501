"""A trial as a run: its settings, up to which step it trains, its folder, and what it reached."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.jobs import job as jobs
from pipeline.runs import accounts, history, run_folder, run_record, tags
from pipeline.runs.run_folder import RunFolder
from pipeline.tuning import space
from pipeline.tuning.methods import Trial

# In the run of a copy: {"of": run, "step": the checkpoint it begins with}.
COPIED = run_folder.COPIED
# What a copy of a run does without: the marks and reports of the other one, its curves, and where
# its time went. Of a copy of a copy, COPIED says that all of it is there: it is written last.
_NOT_COPIED = (
    COPIED,
    history.FILE_NAME,
    "launcher.lock",
    "run.json",
    "report.html",
    "tags.json",
    run_folder.RESULT,
    run_folder.TRAINING_DONE,
    run_folder.STOP,
)
_FOLDERS_NOT_COPIED = ("logs", "status", "profile", accounts.FOLDER)
_EVENTS = "events.out.tfevents"
# TensorFlow's list of checkpoints, by which commands find them.
_CHECKPOINTS = "checkpoint"


@dataclasses.dataclass(frozen=True)
class Reached:
    """What a run has come to: `value` of the objective at `step`, or the one-line `error`; `paused`
    if it has more steps to make. `input_sha256` is of its ledger, `manifest` of its records."""

    value: float = math.nan
    step: int = 0
    paused: bool = False
    error: str = ""
    input_sha256: str | None = None
    manifest: str | None = None


@dataclasses.dataclass(frozen=True)
class TrialJobs:
    """The job that trials are variants of: its config as a file, where it runs and is stored, and
    the rungs in examples; the last of them is all its training."""

    config_path: str
    job: config.Config
    storage_root: str
    cluster: str
    rungs: tuple[int, ...]
    tag: str

    def run(self, trial: Trial) -> RunFolder:
        """Returns the run of a trial."""
        return RunFolder(run_folder.run_folder(self.storage_root, trial.run))

    def settings(self, trial: Trial) -> list[str]:
        """Returns the settings of a trial, with the steps it takes if its batches differ. Raises
        `UsageError` for values that do not go together."""
        given = space.settings(trial.values)
        planned = self._load_config(given)
        own, usual = (topology.examples_per_step(one) for one in (planned, self.job))
        if self.job.train.steps is not None and own != usual:
            given.append(f"train.steps={math.ceil(self.rungs[-1] / own)}")
        return given

    def command(self, trial: Trial, rung: int) -> list[str]:
        """Returns the words of `train` that take a trial up to a rung. Raises `UsageError` as
        `settings` does."""
        given = self.settings(trial)
        if rung < len(self.rungs) - 1:
            own = topology.examples_per_step(self._load_config(given))
            given.append(f"train.pause_step={math.ceil(self.rungs[rung] / own)}")
        jobs.plan(self.config_path, given, run=trial.run, storage_root=self.storage_root)
        return [
            f"--config={self.config_path}",
            f"--storage={self.storage_root}",
            f"--cluster={self.cluster}",
            f"--run={trial.run}",
            *(f"--set={one}" for one in given),
        ]

    def examples_at(self, trial: Trial) -> int:
        """Returns how many examples a trial has been trained on by now, as its processes report."""
        statuses = run_folder.read_statuses(self.run(trial)).values()
        step = max((status.step or 0 for status in statuses), default=0)
        return step * self.examples_per_step(trial)

    def find_saved_step(self, trial: Trial) -> int:
        """Returns the step that a trial continues from."""
        return run_folder.find_saved_step(self.run(trial)) or 0

    def examples_per_step(self, trial: Trial) -> int:
        """Returns how many examples a step of a trial takes."""
        return topology.examples_per_step(self._load_config(space.settings(trial.values)))

    def prepare(self, trial: Trial, parent: Trial | None) -> None:
        """Tags the run of a trial; that of a copy is made, unless it is whole already."""
        run = self.run(trial)
        if parent is not None and run.read(COPIED) is None:
            copy_run(self.run(parent), run)
        if self.tag not in tags.read(run):
            tags.change(run, [self.tag])

    def read_reached(self, trial: Trial) -> Reached:
        """Returns what the run of a trial has come to, once its command has ended well."""
        metric = self.job.eval.metric
        record = run_record.read(self.run(trial))
        if record is None or record.status != "done":
            return Reached(error="its run.json does not say that it has ended")
        value = record.metrics.get("eval", {}).get(metric)
        if value is None or not math.isfinite(value):
            return Reached(error=f"{metric} is {value} at step {record.final_step}")
        return Reached(
            value=float(value),
            step=record.final_step or 0,
            paused=record.reason.startswith(run_folder.PAUSED),
            input_sha256=record.input_sha256,
            manifest=record.manifest,
        )

    def _load_config(self, settings: Sequence[str]) -> config.Config:
        return config_file.load(self.config_path, list(settings))


def copy_run(source: RunFolder, target: RunFolder) -> None:
    """Copies a run that does not train, without its reports and curves. A copy that was interrupted
    is made again. Raises `DataError` if it has no checkpoint."""
    step = run_folder.find_saved_step(source)
    if step is None:
        raise errors.DataError(f"run {source.name!r}: has no checkpoint to copy")
    storage.remove(target.path)
    names = [path.removeprefix(f"{source.path}/") for path in storage.glob(f"{source.path}/**")]
    kept = [name for name in names if _is_copied(name)]
    for name in sorted(kept, key=lambda name: (name == _CHECKPOINTS, name)):
        place = storage.join(target.path, name)
        storage.makedirs(storage.parent(place))
        storage.copy(storage.join(source.path, name), place)
    target.write(COPIED, {"of": source.name, "step": step})


def _is_copied(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    top = name.partition("/")[0]
    return not (
        name in _NOT_COPIED
        or (folder and top in _FOLDERS_NOT_COPIED)
        or last.startswith(_EVENTS)
        or last.endswith(".tmp")
    )


def compute_full_length(job: config.Config, records: int | None) -> int:
    """Returns the examples of a whole training; `records` are those of an epoch."""
    if job.train.steps is not None:
        return job.train.steps * topology.examples_per_step(job)
    assert job.train.epochs is not None
    assert records is not None
    return math.ceil(job.train.epochs * records)


def refuse_others(storage_root: str, name: str, trials: Sequence[Trial]) -> None:
    """Raises `UsageError` if there is a run that is called like a trial to come, such as one of a
    search whose folder was removed: a trial would take its result for its own."""
    folder = storage.join(storage_root, "runs")
    known = {one.run for one in trials}
    for other in storage.listdir(folder):
        if re.fullmatch(rf"{re.escape(name)}-\d{{3,}}", other) and other not in known:
            raise errors.UsageError(
                f"run {other!r}: is called like a trial of search {name!r}, which has not made it; "
                f"use another RUN=, or remove {storage.join(folder, other)!r}"
            )


def refuse_other_records(manifest: str, name: str, trials: Sequence[Trial]) -> None:
    """Raises `UsageError` if a trial was trained on records whose `manifest`, by its SHA-256, is
    another than that of those there are now."""
    for one in trials:
        if one.manifest not in (None, manifest):
            raise errors.UsageError(
                f"search {name!r}: trial {one.number} was trained on records {one.manifest[:12]}, "
                f"and those there are now are {manifest[:12]}, as the raw data has changed; trials "
                "of both cannot be compared: use another RUN=, or put the raw data back"
            )


def refuse_unresumable(found: space.Space, load: space.Load) -> None:
    """Raises `UsageError` for keys that a copy of a run cannot have another value of: those of its
    checkpoint, and those by which as many steps are other numbers of examples."""
    for one in found:
        if jobs.is_of_checkpoint(one.key) or _changes_examples(one, load):
            raise errors.UsageError(
                f"{one.key}: METHOD=pbt continues checkpoints with other settings, which this one "
                "does not allow; search it with METHOD=asha"
            )


def _changes_examples(one: space.Parameter, load: space.Load) -> bool:
    tried = (load(space.settings({one.key: value})) for value in one.ends)
    return len({topology.examples_per_step(job) for job in tried}) > 1


def to_json(trial: Trial, rungs: Sequence[int], *, state: str) -> dict[str, Any]:
    """Returns a trial as `tune.json` has it."""
    return {
        "trial": trial.number,
        "run": trial.run,
        "state": state,
        "values": dict(trial.values),
        "parent": trial.parent,
        "error": trial.error or None,
        "rungs": [
            {"examples_planned": rungs[rung], "value": value, **trial.facts.get(rung, {})}
            for rung, value in enumerate(trial.reached)
        ],
    }
