"""The folders of a records set, their lock, and the removal of what killed runs left.

records/<config>/manifest.json                         names the shards; written last
records/<config>/<12 hex digits>/train-00000-of-00008.tfrecord
records/<config>/<12 hex digits>/dead_letter/train.jsonl
records/<config>/corrections.jsonl                     dead letters that people corrected
records/<config>/_tmp-<random>/                        spilled rows and receipts of a run
records/<config>/.lock                                 held while a run is at work
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator

from pipeline import errors, manifest, run_lock, storage, terminal

DEAD_LETTERS = "dead_letter"
_TEMPORARY = "_tmp-"
_STATISTICS = "statistics.json"
_BUILD = re.compile(r"^[0-9a-f]{12}$")
_HALF_WRITTEN = re.compile(rf"^{re.escape(manifest.FILE_NAME)}\..+\.tmp$")
_RECEIPT = re.compile(r"^(?P<split>[a-z]+)-(?P<index>\d+)\.rows(?P<rows>\d+)\.json$")


@dataclasses.dataclass(frozen=True)
class Folders:
    """Where one run writes. `build` and `temporary` lie in `records`."""

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

    def shard_name(self, split: str, index: int, shards: int) -> str:
        """Returns the path of a shard as the manifest has it, relative to `records`."""
        return f"{self.build_name}/{split}-{index:05d}-of-{shards:05d}.tfrecord"

    def write_receipt(self, split: str, index: int, shard: manifest.Shard) -> None:
        """Notes that a shard is finished, for the manifest and for the progress bar."""
        name = f"{split}-{index:05d}.rows{shard.records}.json"
        storage.write_text(storage.join(self.temporary, name), shard.model_dump_json())

    def receipts(self) -> dict[tuple[str, int], manifest.Shard]:
        """Returns the finished shards."""
        found = {}
        for name in storage.listdir(self.temporary):
            if match := _RECEIPT.match(name):
                text = storage.read_text(storage.join(self.temporary, name))
                shard = manifest.Shard.model_validate_json(text)
                found[match["split"], int(match["index"])] = shard
        return found

    def rows_finished(self) -> int:
        """Returns how many records the finished shards hold, by their receipts' names."""
        found = (_RECEIPT.match(name) for name in storage.listdir(self.temporary))
        return sum(int(match["rows"]) for match in found if match)

    def write_statistics(self, found: dict[str, manifest.Statistics]) -> None:
        """Keeps the statistics of all splits for the manifest."""
        values = {split: of_split.model_dump(mode="json") for split, of_split in found.items()}
        storage.write_text(storage.join(self.temporary, _STATISTICS), json.dumps(values))

    def statistics(self) -> dict[str, manifest.Statistics]:
        """Returns what was kept."""
        values = json.loads(storage.read_text(storage.join(self.temporary, _STATISTICS)))
        return {split: manifest.Statistics(**of_split) for split, of_split in values.items()}


def prepare(records: str, build_name: str) -> Folders:
    """Creates the folders of a run; `build_name` is 12 hex digits."""
    folders = Folders(records, build_name, f"{_TEMPORARY}{secrets.token_hex(4)}")
    storage.makedirs(folders.build)
    storage.makedirs(folders.temporary)
    return folders


def clean(records: str) -> int:
    """Removes what no manifest names: folders of killed or replaced runs. Returns how many.

    Only names of our own pattern are touched. Must be called under the lock.
    """
    named = _builds_in_manifest(records) | _of_job_elsewhere(records)
    left = [
        name
        for name in storage.listdir(records)
        if (name.startswith(_TEMPORARY) and name not in named)
        or _HALF_WRITTEN.match(name)
        or (_BUILD.match(name) and name not in named)
    ]
    for name in left:
        storage.remove(storage.join(records, name))
    return len(left)


def elsewhere(records: str) -> str:
    """Returns the file that names the job which makes the records, and its folders, while one does
    so without us. See `preprocessing.dataflow_job`."""
    return storage.join(records, "dataflow.json")


def _of_job_elsewhere(records: str) -> set[str]:
    path = elsewhere(records)
    if not storage.exists(path):
        return set()
    kept = json.loads(storage.read_text(path))
    return {kept["build"], kept["temporary"]}


def builds(records: str) -> list[str]:
    """Returns the names of the folders of shards: what the manifest names, or a failed run left."""
    named = _builds_in_manifest(records)
    return sorted(named) or [name for name in storage.listdir(records) if _BUILD.match(name)]


def _builds_in_manifest(records: str) -> set[str]:
    try:
        found = manifest.read(records)
    except errors.DataError:
        return set()
    return {s.path.partition("/")[0] for split in found.splits.values() for s in split.shards}


@contextlib.contextmanager
def locked(records: str) -> Iterator[None]:
    """Lets only one run at a time work in a folder.

    Waits for another run to end, and says so. On gs://, where the other may be on any host, raises
    `UsageError` naming it.
    """
    path = storage.join(records, ".lock")
    if storage.is_remote(records):
        with run_lock.shared(path, repr(records)):
            yield
        return
    # The file stays for ever: removing it would let a third process lock a new one.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            print(
                f"{terminal.shown(records)}: waiting for process {other}, which makes it",
                flush=True,
            )
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
