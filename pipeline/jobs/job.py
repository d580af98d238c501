"""One request to train: the config, the run it belongs to, and where that lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import config, errors, redaction, storage
from pipeline.cluster import compatibility, topology
from pipeline.config import config_file, own_input, strategy_table
from pipeline.processes import isolation
from pipeline.records import builds
from pipeline.runs import run_folder, run_search
from pipeline.runs.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class Job:
    """A validated request. Nothing has been written for it yet."""

    config: config.Config
    name: str
    storage_root: str
    run: RunFolder
    # Folder of the build that the run is pinned to; before it is, of the current one.
    records: str
    isolate: isolation.Isolate = isolation.Isolate.AUTO

    def with_records(self, records: str) -> Job:
        """Returns the job with the build at `records`."""
        return dataclasses.replace(self, records=records)

    @property
    def counts(self) -> dict[str, int]:
        """Number of processes of each role."""
        return topology.role_counts(self.config.cluster)


def cluster_overrides(strategy: str | None, workers: int | None, ps: int | None) -> list[str]:
    """Returns the `--set` overrides that the short flags stand for. Raises `UsageError` for a
    strategy there is not."""
    if strategy and strategy not in strategy_table.STRATEGIES:
        known = ", ".join(strategy_table.STRATEGIES)
        hint = errors.suggest(strategy, strategy_table.STRATEGIES)
        raise errors.UsageError(f"--strategy={strategy}: must be one of {known}{hint}")
    given = {"strategy": strategy, "workers": workers, "ps": ps}
    return [f"cluster.{key}={value}" for key, value in given.items() if value not in (None, "")]


def plan(
    config_name: str,
    overrides: Sequence[str],
    *,
    run: str | None,
    storage_root: str,
    look: bool = True,
) -> Job:
    """Reads and checks everything that can be checked before anything is written or started; what
    an earlier start left there is looked at too, unless told not to `look`.

    Without a name the run is called after its config, so the same command finds it again. Raises
    `UsageError` for a bad config, a topology that cannot work, or a `run` that was trained on
    other data or another model.
    """
    wanted = config_file.load(config_name, list(overrides))
    name = run or run_folder.run_name(wanted)
    root = storage.make_absolute(storage_root)
    run_ = RunFolder(run_folder.run_folder(root, name))
    job = Job(
        config=wanted,
        name=name,
        storage_root=root,
        run=run_,
        records=builds.find_run_build(root, run_, wanted.name)
        if look
        else storage.join(root, "records"),
    )
    own_input.refuse_script(wanted)
    compatibility.check(wanted)
    if look:
        refuse_other_job(job)
    return job


def changes(job: Job) -> list[str]:
    """Returns what differs from the config the run was last started with, a line each."""
    if not storage.exists(job.run.config_path):
        return []
    before = job.run.read_config()
    return differences(before, _with_counts_of(before, job.config))


def _with_counts_of(before: config.Config, after: config.Config) -> config.Config:
    """Returns a config with the workers and parameter servers of another, if that asks for as many:
    none given may be the same as 0."""
    try:
        is_same = topology.role_counts(before.cluster) == topology.role_counts(after.cluster)
    except errors.UsageError:  # of an earlier version
        return after
    if not is_same:
        return after
    given = {"workers": before.cluster.workers, "ps": before.cluster.ps}
    return after.model_copy(update={"cluster": after.cluster.model_copy(update=given)})


def differences(before: config.Config, after: config.Config) -> list[str]:
    """Returns a line for each key that differs."""
    old, new = (_flatten(one.model_dump(mode="json")) for one in (before, after))
    absent = object()
    return [
        f"{key}: {_format_value(key, old, absent)} -> {_format_value(key, new, absent)}"
        for key in [*old, *(key for key in new if key not in old)]
        if old.get(key, absent) != new.get(key, absent)
    ]


# Beginnings of lines of `changes` after which a checkpoint cannot be resumed as it is: they decide
# which records are counted, in which order those of a block are read, which variables there are.
_OF_CHECKPOINTS = (
    "data.",
    "model.",
    "train.seed:",
    "train.optimizer.name:",
    "train.optimizer.average: None",
)


def is_of_checkpoint(line: str) -> bool:
    """True for a key after whose change a checkpoint cannot be resumed as it is, or for a line of
    `changes` with such a key."""
    may_change = tuple(f"data.{key}:" for key in config.Data.OF_READING)
    found = line if ":" in line else f"{line}:"
    return found.startswith(_OF_CHECKPOINTS) and not found.startswith(may_change)


def refuse_other_job(job: Job) -> None:
    """Raises `UsageError` if the run of a job was trained on other data or another model. One that
    has failed before its first checkpoint takes any."""
    if job.run.is_of_script:
        raise errors.UsageError(f"run {job.name!r} runs a script: use another RUN= for this one")
    differing = [line for line in changes(job) if is_of_checkpoint(line)]
    if differing and not run_search.is_dead(job.run):
        trained = run_folder.find_saved_step(job.run)
        what, way_out = ("trained", "") if trained else ("begun", ", or remove its folder")
        raise errors.UsageError(
            f"run {job.name!r} was {what} with another config ({'; '.join(differing)}): "
            f"use another RUN= for this one{way_out}"
        )


def _format_value(key: str, tree: Mapping[str, Any], absent: object) -> str:
    value = tree.get(key, absent)
    return "nothing" if value is absent else repr(redaction.redact_value(key, value))


def _flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return found
