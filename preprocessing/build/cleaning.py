"""Old builds of records: what they take, which runs name them, and their removal.

A build that is current, that a run names, or that is being made stays.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator, Sequence

from pipeline import storage
from pipeline.console import figures
from pipeline.records import builds, manifest
from pipeline.runs import liveness, run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from preprocessing.shards import record_folders


@dataclasses.dataclass(frozen=True)
class Build:
    """One build. `runs` name it, and those in `reading` are running.

    `made` is Unix time in seconds; an unfinished build has none, and no bytes that are known.
    """

    records: str
    name: str
    bytes: int = 0
    made: float | None = None
    current: bool = False
    runs: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where it lies."""
        return storage.join(self.records, self.name)

    def explain_need(self, *, force: bool = False) -> str:
        """Returns why the build must stay, empty if it need not. With `force`, only what is current
        or being read must."""
        if self.current:
            return "current"
        if self.reading:
            return f"in use by {', '.join(self.reading)}"
        return f"named by {', '.join(self.runs)}" if self.runs and not force else ""


def list_names(storage_root: str) -> list[str]:
    """Returns the names of all records below a root."""
    found = storage.listdir(storage.join(storage.make_absolute(storage_root), "records"))
    return [name for name in found if re.fullmatch(storage.NAME_PATTERN, name)]


def find(storage_root: str, name: str) -> list[Build]:
    """Returns all builds of the records called `name`, the newest first, unfinished ones last."""
    records = run_folder.records_folder(storage_root, name)
    runs = _find_runs_by_build(storage_root, records, name)
    current = builds.find_current_name(records)
    found = []
    for build in filter(builds.base_of, storage.listdir(records)):
        folder, of_build = storage.join(records, build), runs.get(build, [])
        path = manifest.path_in(folder)
        found.append(
            Build(
                records,
                build,
                bytes=builds.size(folder),
                made=storage.get_modified_time(path) if storage.exists(path) else None,
                current=build == current,
                runs=tuple(run.name for run in of_build),
                reading=tuple(run.name for run in of_build if _is_at_work(run)),
            )
        )
    return sorted(found, key=lambda build: -(build.made or 0.0))


def clean(storage_root: str, name: str, *, force: bool = False) -> Iterator[tuple[Build, str]]:
    """Removes all builds that are not needed. Yields each build with why it stays, empty if it is
    gone."""
    records = run_folder.records_folder(storage_root, name)
    record_folders.adopt(records)
    record_folders.sweep(records)
    for build in find(storage_root, name):
        yield (
            build,
            build.explain_need(force=force) or _remove(storage_root, name, build, force=force),
        )


def _remove(storage_root: str, name: str, build: Build, *, force: bool) -> str:
    """Removes a build, unless it turns out to be needed by now; returns why then."""
    records = build.records
    with record_folders.try_lock(records, builds.base_of(build.name) or "") as is_free:
        if not is_free or build.name in record_folders.find_folders_of_jobs(records):
            return "being made"
        path = manifest.path_in(build.folder)
        text = storage.read_text(path) if storage.exists(path) else None
        # A run that starts on it finds no manifest from here on, or has named it already.
        storage.remove(path)
        again = [one for one in find(storage_root, name) if one.name == build.name]
        needed = again[0].explain_need(force=force) if again else ""
        if needed:
            if text is not None:
                storage.write_text(path, text)
            return needed
        if builds.find_unnamed(records) == build.name:
            storage.remove(manifest.path_in(records))
        storage.remove(build.folder)
    return ""


def _find_runs_by_build(storage_root: str, records: str, name: str) -> dict[str, list[RunFolder]]:
    """Returns the runs that name each build, by their pin or as earlier versions did."""
    unnamed = builds.find_unnamed(records) or ""
    found: dict[str, list[RunFolder]] = {}
    root = storage.join(storage.make_absolute(storage_root), "runs")
    for run in (RunFolder(storage.join(root, folder)) for folder in storage.listdir(root)):
        for build in _find_named(run, records, name):
            found.setdefault(build or unnamed, []).append(run)
    return found


def _find_named(run: RunFolder, records: str, name: str) -> Sequence[str]:
    """Returns the builds that a run names, empty for the one of an earlier version."""
    pin = builds.read_pin(run)
    if pin is not None:
        named = [pin.build] if pin.before is None else [pin.build, pin.before]
        return named if pin.records == name else []
    return [""] if builds.has_trained_on_unnamed(run, records) else []


def _is_at_work(run: RunFolder) -> bool:
    statuses = run_folder.read_statuses(run)
    state, _ = liveness.state_of_run(run, run_record.read(run), statuses, now=time.time())
    return state in liveness.AT_WORK


def format_lines(found: Sequence[tuple[Build, str]]) -> list[str]:
    """Returns a line for each build: its size, when it was made, and what became of it."""
    rows = []
    for build, why in found:
        size = figures.size(build.bytes) if build.made else "unfinished"
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(build.made)) if build.made else ""
        rows.append(f"  {build.name:15}  {size:>12}  {made:16}  {why or 'removed'}")
    return rows
