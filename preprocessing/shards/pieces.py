"""Finished pieces of a run: chunks whose files are all there, which a later run can use.

When all files of a chunk are closed, a marker is written. It says which chunk it was, and which
segments, with length and CRC-32C of every file:

_tmp-<base>-<random>/train-000007.piece.json          the marker, written last
_tmp-<base>-<random>/train-000007-0000.rows8192.arrow spilled rows
_tmp-<base>-<random>/train-000007-0000.bad2.jsonl     dead letters
_tmp-<base>-<random>/train-000007.tally.json          counts of rows
_tmp-<base>-<random>/train-000007.statistics.arrow    what was learned of the columns

The next run moves the files of a finished piece into its own folder, having compared them with
their checksums, and writes the marker there last. That is safe though a process of the killed run
may be just ending: a run never opens a file of a finished piece for writing again, and whatever
else such a process still writes goes to the folder of the killed run by its path, which no reader
looks at. A run that is killed while it moves the files of a piece loses that piece alone.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pipeline import errors, storage
from pipeline.storage import strict_json
from preprocessing.shards import spill, summed
from preprocessing.sources.base import Chunk
from preprocessing.statistics import partials_file
from preprocessing.statistics.column_stats import Partials

_MARKER = ".piece.json"
_AT_ONCE = 8  # pieces that are compared with their checksums


@dataclasses.dataclass(frozen=True)
class Keeping:
    """Whether finished pieces are `marked` for a later run, and the keys of those that are there
    already."""

    marked: bool = False
    there: frozenset[str] = frozenset()


NOTHING = Keeping()


@dataclasses.dataclass(frozen=True)
class Piece:
    """What a chunk gave. The files lie in `folder`, and so do those of `segments`; `statistics`
    names the one of these that has what was learned of the columns."""

    folder: str
    segments: list[tuple[tuple[str, int], spill.Segment]]
    files: summed.Sums
    statistics: str | None

    def read_learned(self) -> Partials | None:
        """Returns what was learned of the columns, if it was learned with the piece."""
        if self.statistics is None:
            return None
        with storage.open_file(storage.join(self.folder, self.statistics)) as file:
            return partials_file.read(file)

    def is_whole(self) -> bool:
        """Tells if all files are as they were written. Reads them."""
        return all(
            summed.is_whole(storage.join(self.folder, name), wanted)
            for name, wanted in self.files.items()
        )


def name_piece(chunk: Chunk) -> str:
    """Returns the name of a piece within a run."""
    return f"{chunk.split}-{chunk.index:06d}"


def finish(
    folder: str,
    chunk: Chunk,
    segments: Sequence[tuple[tuple[str, int], spill.Segment]],
    *,
    learned: Partials | None,
    sums: summed.Sums,
) -> None:
    """Writes the marker of a piece, of whose files `sums` has all; and before it `learned`."""
    statistics = None
    if learned is not None:
        statistics = f"{name_piece(chunk)}.statistics.arrow"
        with summed.create(storage.join(folder, statistics), sums) as file:
            partials_file.write(learned, file)
    _write(Piece(folder, list(segments), sums, statistics), chunk)


def _write(piece: Piece, chunk: Chunk) -> None:
    found = [
        [*place, storage.join(segment.path).rpartition("/")[2], *dataclasses.astuple(segment)[1:]]
        for place, segment in piece.segments
    ]
    values = {
        "chunk": _hash_chunk(chunk),
        "segments": found,
        "files": {name: [one.bytes, one.crc32c] for name, one in piece.files.items()},
        "statistics": piece.statistics,
    }
    text = strict_json.dumps(values)
    marker = strict_json.dumps({"crc32c": summed.sum_text(text).crc32c, "piece": values})
    storage.write_text(storage.join(piece.folder, name_piece(chunk) + _MARKER), marker)


def read(folder: str, chunk: Chunk) -> Piece | None:
    """Returns the piece of a chunk, if a marker in `folder` is of this very chunk; its files are
    not looked at."""
    try:
        marker = json.loads(storage.read_text(storage.join(folder, name_piece(chunk) + _MARKER)))
        values = marker["piece"]
        if summed.sum_text(strict_json.dumps(values)).crc32c != marker["crc32c"]:
            return None
        if values["chunk"] != _hash_chunk(chunk):
            return None
        segments = [_make_segment(folder, of_segment) for of_segment in values["segments"]]
        files = {name: summed.Sum(*of_file) for name, of_file in values["files"].items()}
        return Piece(folder, segments, files, values["statistics"])
    except (FileNotFoundError, errors.DataError, ValueError, KeyError, TypeError):
        return None


def _make_segment(folder: str, values: Sequence[Any]) -> tuple[tuple[str, int], spill.Segment]:
    split, shard, name, batch, (chunk, part), *rest = values
    return (split, shard), spill.Segment(storage.join(folder, name), batch, (chunk, part), *rest)


def _hash_chunk(chunk: Chunk) -> str:
    """Returns a hash of all that is planned of a chunk; the plans of our sources are plain values,
    with the same `repr` in every process."""
    return hashlib.sha256(repr(chunk).encode()).hexdigest()


def count_finished(folder: str) -> int:
    """Returns how many markers there are in a folder."""
    return sum(name.endswith(_MARKER) for name in storage.listdir(folder))


def move_finished(folders: Sequence[str], chunks: Sequence[Chunk], target: str) -> frozenset[str]:
    """Moves finished pieces of `chunks` from the folders of killed runs to `target`; returns the
    keys of those whose checksums are right. What else is in the folders stays there."""

    def move_piece(chunk: Chunk) -> str | None:
        found = (read(folder, chunk) for folder in folders)
        whole = next((piece for piece in found if piece and piece.is_whole()), None)
        if whole is None:
            return None
        for name in whole.files:
            storage.move(storage.join(whole.folder, name), storage.join(target, name))
        _write(dataclasses.replace(whole, folder=target), chunk)
        return name_piece(chunk)

    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        return frozenset(filter(None, pool.map(move_piece, chunks)))
