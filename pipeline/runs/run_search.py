"""Finds runs: by name, or the newest one, of all or of a config."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline import errors, storage
from pipeline.runs import array_names
from pipeline.runs.run_folder import RECORD, RunFolder, find_saved_step, run_folder

if TYPE_CHECKING:
    from pipeline.config import Config


def find_run(
    storage_root: str,
    run: str | None,
    config_name: str | None = None,
    *,
    scripts: bool = False,
    trained: bool = False,
) -> RunFolder:
    """Returns the run of that name, or the newest one, of a config (its name or path) if that is
    given. Raises `UsageError` if there is none, or if the named run is of another config: one of
    another name, or of another model (see `other_model`).

    Runs of a script, which have no config, are found only if `scripts` is true. With `trained`, one
    that failed before its first checkpoint is not the newest while there is another.
    """
    wanted = _load(config_name) if config_name else None
    if not run:
        root = storage.join(storage.make_absolute(storage_root), "runs")
        others: dict[str, str] = {}
        newest = _list_newest_first(root, wanted, scripts=scripts and wanted is None, others=others)
        if (first := next(newest, None)) is None:
            raise _build_not_found_error(wanted, root, str(config_name), others=others)
        alive = (f for f in itertools.chain([first], newest) if not is_dead(f))
        return next(alive, first) if trained else first
    folder = RunFolder(run_folder(storage_root, run))
    if folder.is_of_script:
        if scripts and wanted is None:
            return folder
        raise errors.UsageError(
            f"run {run!r}: runs a script and has no config; only status, logs, runs and stop "
            "work on it"
        )
    if not storage.exists(folder.config_path):
        known = storage.listdir(storage.parent(folder.path))
        if folder.name in known:
            raise errors.UsageError(
                f"run {run!r}: has no config.yaml, so it is not a run; make runs "
                f"STORAGE={shlex.quote(storage_root)} lists all runs"
            )
        hint = errors.suggest(run, known)
        if indexes := array_names.indexes_in(run, known):
            runs = array_names.list_names(run, indexes)
            hint = f", which has {runs}: give one of these"
        raise errors.UsageError(
            f"run {run!r}: not in {storage.parent(folder.path)!r}{hint}; "
            f"make runs STORAGE={shlex.quote(storage_root)} lists all runs"
        )
    if wanted is not None and (why := _explain_mismatch(folder, wanted)):
        raise errors.UsageError(
            f"--config {config_name!r}: is {wanted.name!r}, but run {run!r} is of another: {why}; "
            "give one of the two"
        )
    return folder


def _build_not_found_error(
    wanted: Config | None, root: str, config_name: str, *, others: dict[str, str]
) -> errors.UsageError:
    """Returns the error of a config that has no run; `others` are runs of that name, with why they
    are not of it."""
    assert wanted is not None  # without a config any run would do
    train = f"make train CONFIG={shlex.quote(config_name)}"
    if not others:
        return errors.UsageError(f"no run of {wanted.name!r} in {root!r}. Train one with {train}.")
    run, why = next(iter(others.items()))
    todo = f"Train one with {train}, or name that run alone with RUN={run}"
    if why.startswith("its data.inputs.") and "absent" not in why:
        # Paths are what it goes by: a project in another folder looks like another config.
        todo = (
            f"If these files were only moved or copied, name that run alone with RUN={run}; "
            f"otherwise train one with {train}"
        )
    return errors.UsageError(
        f"config {config_name!r}: no run in {root!r} is of it. The newest called {wanted.name!r}, "
        f"{run!r}, is of another config: {why}. {todo}. Another name: or STORAGE= keeps two "
        "configs apart"
    )


def _explain_mismatch(folder: RunFolder, wanted: Config) -> str:
    """Returns in words why a run is not one of a config; empty if it is."""
    from pipeline.runs import other_model  # of steps, whose import takes a while

    found = folder.read_config(import_steps=False)
    if found.name != wanted.name:
        return f"its name is {found.name!r}"
    return ", ".join(other_model.differences(wanted, found))


def find_launch_time(folder: RunFolder, started: float | None) -> float:
    """Returns when the newest launch of a run began, in Unix time: `started` by its record, as the
    files of a copied folder are newer; without a record, when the file was written that each start
    writes."""
    return storage.get_modified_time(folder.begun_path) if started is None else started


def _read_launch_time(folder: RunFolder) -> float:
    started = None
    with contextlib.suppress(errors.PipelineError):  # it is damaged, or of another user
        started = (folder.read(RECORD) or {}).get("started")
    return find_launch_time(folder, started if isinstance(started, float | int) else None)


def list_folders(root: str) -> list[RunFolder]:
    """Returns the folders in `root`, of runs or not; one that a link names, by the link."""
    folders = [RunFolder(storage.join(root, name)) for name in storage.listdir(root)]
    if storage.is_remote(root):
        return folders
    targets = {os.path.realpath(one.path) for one in folders if os.path.islink(one.path)}
    kept = [one for one in folders if os.path.islink(one.path) or one.path not in targets]
    return [one for one in kept if os.path.exists(one.path)]


def is_dead(folder: RunFolder) -> bool:
    """Tells if a run has failed before there was anything to keep of it: without the list of
    checkpoints it has those of which there are files."""
    if (folder.read(RECORD) or {}).get("status") != "failed" or find_saved_step(folder) is not None:
        return False
    return not storage.glob(f"{folder.path}/model.ckpt-*.index")


def _list_newest_first(
    root: str, wanted: Config | None, *, scripts: bool, others: dict[str, str]
) -> Iterator[RunFolder]:
    """Yields the runs of a config, or all, and notes those that only share its name in `others`.
    Raises `UsageError` if there is no run at all."""
    started = [
        f
        for f in list_folders(root)
        if storage.exists(f.config_path) or (scripts and f.is_of_script)
    ]
    if not started and any(folder.is_of_script for folder in list_folders(root)):
        raise errors.UsageError(
            f"the runs in {root!r} run scripts and have no config; only status, logs, runs and "
            "stop work on them"
        )
    if not started:
        raise errors.UsageError(f"no runs in {root!r}. Train one with make train.")
    for folder in sorted(started, key=_read_launch_time, reverse=True):
        # One that cannot be read, such as of another version, is of no config that is known.
        with contextlib.suppress(errors.UsageError, errors.DataError):
            why = "" if wanted is None else _explain_mismatch(folder, wanted)
            if not why:
                yield folder
            elif not why.startswith("its name is"):
                others[folder.name] = why


def find_others(storage_root: str, name_or_path: str) -> tuple[str, set[str]]:
    """Returns the name of a config, and the runs of that name that are of another. Raises
    `UsageError` if it does not exist or is not valid."""
    wanted = _load(name_or_path)
    others = set()
    for folder in list_folders(storage.join(storage.make_absolute(storage_root), "runs")):
        with contextlib.suppress(errors.UsageError, errors.DataError):  # of no config that is known
            if storage.exists(folder.config_path) and _explain_mismatch(folder, wanted):
                others.add(folder.name)
    return wanted.name, others


def _load(name_or_path: str) -> Config:
    from pipeline.config import config_file  # commands that only look start without it

    return config_file.load(name_or_path, import_steps=False)
