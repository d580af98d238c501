"""Remembers which shards were read whole and found intact, so that a restart reads none again.

A shard is intact as long as its version is the same: its length and times on a disk, its generation
on gs://. Damage that changes neither is still found while training, by the checksums of records.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from pipeline import errors
from pipeline.runs.run_folder import RunFolder

FILE = "verified.json"
_INTERVAL = 30.0  # seconds of work that a kill may cost


class Verified:
    """The shards of a run that are known to be intact: {path: version and CRC-32C}.

    `describe_check` says what was looked at; what was found by another check is forgotten.
    """

    def __init__(
        self, run: RunFolder, checked: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._checked, self._clock = run, checked, clock
        content = None
        with contextlib.suppress(errors.PipelineError):  # it can be found out again
            content = run.read(FILE)
        known = content is not None and content.get("checked") == checked
        self._shards: dict[str, str] = dict(content["shards"]) if content and known else {}
        self._saved = clock()

    def learn(self, other: Verified) -> None:
        """Takes over what another has found, of shards that are not known yet."""
        self._shards = {**other._shards, **self._shards}

    def knows(self, path: str, version: str, crc32c: str) -> bool:
        """Returns whether a shard was found to have this checksum, and is what it was then."""
        return self._shards.get(path) == f"{version} {crc32c}"

    def add(self, path: str, version: str, crc32c: str) -> None:
        """Notes that a shard, as it was before it was read, has this checksum."""
        self._shards[path] = f"{version} {crc32c}"
        if self._clock() - self._saved >= _INTERVAL:
            self.save()

    def save(self) -> None:
        """Writes what is known; if it cannot be written, that costs time at the next start."""
        self._saved = self._clock()
        with contextlib.suppress(errors.PipelineError):
            self._run.write(FILE, {"checked": self._checked, "shards": self._shards})


def describe_check(sha256: str) -> str:
    """Returns what says that the checksums of records with this manifest were compared."""
    return f"records {sha256[:16]}"


def open_verified(folder: str, sha256: str) -> Verified:
    """Returns what is known of the shards of a build, for all runs; only builds of files that were
    there before know any."""
    return Verified(RunFolder(folder), describe_check(sha256))


def forget(run: RunFolder) -> None:
    """Has all shards read again at the next start."""
    run.remove(FILE)
