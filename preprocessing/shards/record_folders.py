"""The folders of a records set, their locks, and the removal of what killed runs left.

records/<config>/current.json                   names the current build; written last
records/<config>/<build>/manifest.json          names the shards; the build is finished with it
records/<config>/<build>/train-00000-of-00008.tfrecord
records/<config>/<build>/dead_letter/train.jsonl
records/<config>/<build>/dead_letter/all.tally.json     how many rows were read, how many are bad
records/<config>/corrections.jsonl              dead letters that people corrected
records/<config>/_tmp-<base>-<random>/          spilled rows and receipts of a run; of a killed one
                                                the next uses what is finished (see `pieces`)
records/<config>/.lock-<base>                   held while a run makes a build of that base

A build is called by its base, 12 hex digits of what it is made of, or <base>-2 and so on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence

from pipeline import errors, storage
from pipeline.console import terminal
from pipeline.records import builds, manifest
from pipeline.runs import run_lock
from pipeline.storage import strict_json

DEAD_LETTERS = "dead_letter"
_TEMPORARY = "_tmp-"
_STATISTICS = "statistics.json"
_LOCK = ".lock"
_OF_RUN = re.compile(rf"^{_TEMPORARY}((?P<base>[0-9a-f]{{12}})-)?[0-9a-f]+$")
# Small files of ours that were being written when the process was killed.
_HALF_WRITTEN = re.compile(r"^[a-z0-9-]+\.jsonl?\.\d+-[0-9a-f]{8}\.tmp$")
_LONG_AGO = 3600.0  # seconds; they are written in moments
_RECEIPT = re.compile(r"^(?P<split>[a-z]+)-(?P<index>\d+)\.rows(?P<rows>\d+)\.json$")


@dataclasses.dataclass(frozen=True)
class Folders:
    """Where one run writes. `build` and `temporary` lie in `records`, the folder of the config."""

    records: str
    build_name: str
    temporary_name: str

    @property
    def build(self) -> str:
        """Holds the shards."""
        return storage.join(self.records, self.build_name)

    @property
    def dead_letters(self) -> str:
        """Holds one JSONL file per split of rows that did not become records, if there are any."""
        return storage.join(self.build, DEAD_LETTERS)

    @property
    def temporary(self) -> str:
        """Holds what is gone at the end of the run."""
        return storage.join(self.records, self.temporary_name)

    def name_shard(self, split: str, index: int, shards: int) -> str:
        """Returns the path of a shard as the manifest has it, relative to `build`."""
        return f"{split}-{index:05d}-of-{shards:05d}.tfrecord"

    def write_receipt(self, split: str, index: int, shard: manifest.Shard) -> None:
        """Notes that a shard is finished, for the manifest and for the progress bar."""
        name = f"{split}-{index:05d}.rows{shard.records}.json"
        storage.write_text(storage.join(self.temporary, name), shard.model_dump_json())

    def read_receipts(self) -> dict[tuple[str, int], manifest.Shard]:
        """Returns the finished shards."""
        found = {}
        for name in storage.listdir(self.temporary):
            if match := _RECEIPT.match(name):
                text = storage.read_text(storage.join(self.temporary, name))
                shard = manifest.Shard.model_validate_json(text)
                found[match["split"], int(match["index"])] = shard
        return found

    def count_finished_rows(self) -> int:
        """Returns how many records the finished shards hold, by their receipts' names."""
        found = (_RECEIPT.match(name) for name in storage.listdir(self.temporary))
        return sum(int(match["rows"]) for match in found if match)

    def write_statistics(self, found: dict[str, manifest.Statistics]) -> None:
        """Keeps the statistics of all splits for the manifest."""
        values = {split: of_split.model_dump(mode="json") for split, of_split in found.items()}
        storage.write_text(storage.join(self.temporary, _STATISTICS), strict_json.dumps(values))

    def read_statistics(self) -> dict[str, manifest.Statistics]:
        """Returns what was kept."""
        values = strict_json.loads(storage.read_text(storage.join(self.temporary, _STATISTICS)))
        return {split: manifest.Statistics(**of_split) for split, of_split in values.items()}


def prepare(records: str, base: str, used: Sequence[str] = ()) -> Folders:
    """Creates the folders of a run; `base` is 12 hex digits. The folder of the build is none of
    those that were `used` before, in which a process that is just ending may still write."""
    taken = map(builds.number_of, (*list_builds(records, base), *used))
    number = max(taken, default=0) + 1
    name = f"{base}-{number}" if number > 1 else base
    folders = Folders(records, name, f"{_TEMPORARY}{base}-{secrets.token_hex(4)}")
    storage.makedirs(folders.build)
    storage.makedirs(folders.temporary)
    return folders


def list_builds(records: str, base: str) -> list[str]:
    """Returns the folders of all builds of a base, finished or not, the newest first."""
    names = [name for name in storage.listdir(records) if builds.base_of(name) == base]
    return sorted(names, key=builds.number_of, reverse=True)


def adopt(records: str) -> None:
    """Gives a build that an earlier version has made, with its manifest next to the folder of its
    shards, a manifest of its own, and makes it the current one if there is none.

    The old manifest stays, for runs that were started with it.
    """
    build = builds.find_unnamed(records)
    if build is None or builds.is_published(records, build):
        return
    found = manifest.read(records)
    splits = {
        name: split.model_copy(update={"shards": tuple(map(_drop_build_folder, split.shards))})
        for name, split in found.splits.items()
    }
    own = found.model_copy(update={"splits": splits})
    manifest.write(storage.join(records, build), own)
    if not builds.find_current_name(records):
        builds.make_current(records, build)


def _drop_build_folder(shard: manifest.Shard) -> manifest.Shard:
    return shard.model_copy(update={"path": shard.path.partition("/")[2]})


def sweep(records: str, base: str | None = None, used: Sequence[str] = ()) -> None:
    """Removes what runs that were killed have left, but for the folders that are `used`. If `base`
    is given, its lock must be held.

    Finished builds stay, and so does what another run is making. Dead letters of failed runs
    with other settings stay too: people may be correcting them.
    """
    kept = find_folders_of_jobs(records)
    for name in storage.listdir(records):
        owner = _find_owner(name)
        if owner is None or name in kept or builds.is_published(records, name):
            continue
        if storage.join(records, name) in used:
            continue
        if owner == base:
            remove(storage.join(records, name))
        elif base is None or not storage.is_remote(records):  # where a lock may take a minute
            with try_lock(records, owner) as is_free:
                if is_free and not builds.is_published(records, name):
                    abandon(storage.join(records, name))
    for name in storage.listdir(records):
        if _HALF_WRITTEN.match(name) and _is_old(storage.join(records, name)):
            storage.remove(storage.join(records, name))


def find_leftovers(records: str, base: str) -> list[str]:
    """Returns the temporary folders of runs that were killed. The lock of `base` must be held."""
    kept = find_folders_of_jobs(records)
    return [
        storage.join(records, name)
        for name in storage.listdir(records)
        if _OF_RUN.match(name) and _find_owner(name) == base and name not in kept
    ]


def list_left_by_others(records: str, base: str) -> list[str]:
    """Returns the names of the temporary folders of runs that made, or make, another build."""
    kept = find_folders_of_jobs(records)
    return [
        name
        for name in storage.listdir(records)
        if _OF_RUN.match(name) and _find_owner(name) != base and name not in kept
    ]


def abandon(build: str) -> None:
    """Removes a build that will not be finished, but not its dead letters."""
    if not storage.listdir(storage.join(build, DEAD_LETTERS)):
        remove(build)
        return
    for name in storage.listdir(build):
        if name != DEAD_LETTERS:
            remove(storage.join(build, name))


def remove(path: str) -> None:
    """Removes a folder or file. What cannot be removed, because a process that is just ending
    still writes there, is left for the next run."""
    with contextlib.suppress(OSError):
        storage.remove(path)


def _find_owner(name: str) -> str | None:
    """Returns the base of the run that a folder belongs to; empty for one of earlier versions."""
    if match := _OF_RUN.match(name):
        return match["base"] or ""
    return builds.base_of(name)


def _is_old(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - storage.get_modified_time(path) > _LONG_AGO
    return False


def name_job_file(records: str, base: str) -> str:
    """Returns the file that names the job which makes the records, and its folders, while one does
    so without us. See `preprocessing.runners.dataflow_job`."""
    return storage.join(records, f"dataflow-{base}.json")


def find_folders_of_jobs(records: str) -> set[str]:
    """Returns the folders that jobs without us work in."""
    found: set[str] = set()
    for name in storage.listdir(records):
        if name.startswith("dataflow") and name.endswith(".json"):
            with contextlib.suppress(FileNotFoundError):
                kept = strict_json.loads(storage.read_text(storage.join(records, name)))
                found |= {kept["build"], kept["temporary"]}
    return found


def find_letters(records: str, base: str) -> list[str]:
    """Returns the files of dead letters of the newest build of `base`, finished or failed. If there
    is none, of the current build and of failed ones."""
    names = list_builds(records, base)[:1] or [
        name
        for name in storage.listdir(records)
        if name == builds.find_current_name(records)
        or (builds.base_of(name) and not builds.is_published(records, name))
    ]
    folders = [storage.join(records, name, DEAD_LETTERS) for name in names]
    return [
        storage.join(folder, name)
        for folder in folders
        for name in storage.listdir(folder)
        if name.endswith(".jsonl")
    ]


@contextlib.contextmanager
def try_lock(records: str, base: str) -> Iterator[bool]:
    """Holds the lock of a base if no other process does; yields whether it is held. On a file
    system without locks it never is: another process may be running.
    """
    if storage.is_remote(records):
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(run_lock.hold_shared(_name_lock(records, base), repr(records)))
            except errors.UsageError:
                yield False
                return
            yield True
        return
    descriptor = os.open(_name_lock(records, base), os.O_RDWR | os.O_CREAT, 0o644)
    is_free = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(descriptor)


def _name_lock(records: str, base: str) -> str:
    return storage.join(records, f"{_LOCK}-{base}" if base else _LOCK)


@contextlib.contextmanager
def hold_lock(records: str, base: str = "") -> Iterator[None]:
    """Lets only one run at a time make builds of a base; without one, change the corrections.

    Waits for another run to end, and says so. On gs://, where the other may be on any host, raises
    `UsageError` naming it.
    """
    path = _name_lock(records, base)
    if storage.is_remote(records):
        with run_lock.hold_shared(path, repr(records)):
            yield
        return
    # The file stays for ever: removing it would let a third process lock a new one.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not run_lock.try_lock(descriptor):
            other = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            print(
                f"{terminal.display_path(records)}: waiting for process {other}, which makes it",
                flush=True,
            )
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
