"""What a scan of files that are used in place has found, and how far it is.

_tmp-<base>-<random>/train-000007.bytes52428800.scanned.json  the shards of a chunk, written last
_tmp-<base>-<random>/train-000007-0001.bytes268435456.scanning  that so much of a chunk was read
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from pipeline import errors, storage
from pipeline.records import manifest
from pipeline.storage import strict_json
from preprocessing.shards import pieces, summed
from preprocessing.sources.base import Chunk

# Bytes stand in the names, so that progress can be seen by listing the folder.
_NAME = re.compile(
    r"^(?P<split>[a-z]+)-(?P<chunk>\d+)(-\d+)?\.bytes(?P<bytes>\d+)\.(?P<kind>scann(ed\.json|ing))$"
)
_DONE = "scanned.json"
_EVERY = 256 << 20  # bytes


@dataclasses.dataclass(frozen=True)
class ScannedFile:
    """A file as a shard, and its `version` from before it was read (`storage.Details`)."""

    shard: manifest.Shard
    version: str


class Scanning:
    """Leaves a note whenever some of the files of a chunk have been read."""

    def __init__(self, folder: str, chunk: Chunk) -> None:
        self._folder, self._key = folder, pieces.name_piece(chunk)
        self._unsaid = self._notes = 0

    def advance(self, count: int) -> None:
        """Says that `count` more bytes have been read."""
        self._unsaid += count
        if self._unsaid >= _EVERY:
            name = f"{self._key}-{self._notes:04d}.bytes{self._unsaid}.scanning"
            storage.write_text(storage.join(self._folder, name), "")
            self._unsaid, self._notes = 0, self._notes + 1


def write(folder: str, chunk: Chunk, found: list[ScannedFile], *, sums: summed.Sums) -> None:
    """Writes down the shards of a chunk; notes in `sums` what the file is."""
    size = sum(one.shard.bytes for one in found)
    values = [[one.version, one.shard.model_dump(mode="json")] for one in found]
    path = storage.join(folder, f"{pieces.name_piece(chunk)}.bytes{size}.{_DONE}")
    summed.write_text(path, strict_json.dumps(values), sums)


def read(folder: str) -> dict[str, list[ScannedFile]]:
    """Returns by split what was found, in the order of the files."""
    found: dict[str, list[ScannedFile]] = {}
    for name, match in sorted(_match_names(folder)):
        if match["kind"] == _DONE:
            for version, shard in strict_json.loads(storage.read_text(storage.join(folder, name))):
                one = ScannedFile(manifest.Shard.model_validate(shard), version)
                found.setdefault(match["split"], []).append(one)
    return found


def count_bytes_read(folder: str) -> int:
    """Returns how much has been read, by the names of the files in `folder`."""
    done: dict[tuple[str, str], int] = {}
    under_way: dict[tuple[str, str], int] = {}
    for _, match in _match_names(folder):
        kind = done if match["kind"] == _DONE else under_way
        key = (match["split"], match["chunk"])
        kind[key] = kind.get(key, 0) + int(match["bytes"])
    return sum((under_way | done).values())


def _match_names(folder: str) -> Iterator[tuple[str, re.Match[str]]]:
    found = ((name, _NAME.match(name)) for name in storage.listdir(folder))
    return ((name, match) for name, match in found if match)


def check_apart(found: dict[str, list[ScannedFile]]) -> None:
    """Raises `DataError` if files of two splits have the same content."""
    seen: dict[tuple[int, str], tuple[str, str]] = {}
    for split, of_split in found.items():
        for shard in (one.shard for one in of_split if one.shard.records):
            other, path = seen.setdefault((shard.bytes, shard.crc32c), (split, shard.path))
            if other != split:
                raise errors.DataError(
                    f"{shard.path!r} of {split} is a copy of {path!r} of {other}: the model would "
                    "be evaluated on records it was trained on; remove one of them"
                )
