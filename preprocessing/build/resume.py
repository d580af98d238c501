"""Decides what a run may use of those before it that were killed.

Pieces that a killed run has finished (`preprocessing.shards.pieces`) are used if everything that
decides their bytes is what it was: the code of the project and the libraries it computes with, all
settings of the data, the corrections, and the raw files. A run notes these in its temporary folder
before it plans its first chunk.

A raw file may change between the reads of two chunks, or between a read and the hashing. So its
content alone, compared at one moment, would prove nothing. What is compared is the version that the
storage gives each file: size, times of the last write and of the last change, or on gs:// the
generation. No write leaves it as it was. If it is the same before the first chunk of the killed run
as it is now, every chunk was read from the files as they are now, whether or not the killed run
lived to the end of its hashing. A file that was merely touched counts as changed.

In case a file system does not tell the truth about times, the fingerprint with the SHA-256 of all
raw files is noted too as soon as it is known, and compared before records are published.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Sequence
from importlib import metadata

from pipeline import config, errors, storage, versions
from pipeline.console import figures
from pipeline.source_table import SOURCES
from pipeline.storage import strict_json
from preprocessing.build import fingerprint
from preprocessing.shards import pieces, record_folders, scanned, spill
from preprocessing.sources.base import Chunk, RawFile, Source

_NOTE = "made-of.json"
# What computes the bytes of pieces besides our own code.
_LIBRARIES = ("apache-beam", "google-crc32c", "numpy", "pillow", "pyarrow", "pydantic")


@dataclasses.dataclass(frozen=True)
class MadeOf:
    """What decides the pieces of a run, as hashes. `fingerprint` is that of the records, `None`
    until all raw files have been hashed."""

    code: str
    settings: str
    files: str
    fingerprint: str | None = None


@dataclasses.dataclass(frozen=True)
class Left:
    """What killed runs have left: how much they had `read`, and the `folders` of those whose pieces
    can be used; if there were any and none of them can be, `why`. `wanted` is what this run is made
    of, `None` if no later one can use its pieces; `fingerprint` that of the pieces, if known."""

    read: str
    wanted: MadeOf | None
    folders: tuple[str, ...] = ()
    why: str = ""
    fingerprint: str | None = None


def describe_inputs(data: config.Data, source: Source) -> MadeOf:
    """Returns what a run is made of that begins now."""
    code = {
        "format": fingerprint.FORMAT,
        "code": versions.code_version(("pipeline", "preprocessing")),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
    }
    return MadeOf(
        config.digest(code),
        config.digest({"data": config.digest(data), "changes": source.hash_changes()}),
        _hash_versions(source.files()),
    )


def _hash_versions(files: Sequence[RawFile]) -> str:
    digest = hashlib.sha256()
    paths = [file.path for file in files]
    for path, found in zip(paths, storage.describe(paths), strict=True):
        digest.update(f"{path}\0{found and found.version}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


def inspect_leftovers(
    killed: Sequence[str],
    data: config.Data,
    source: Source,
    *,
    pipeline_options: Sequence[str],
    force: bool,
) -> Left:
    """Returns what can be used of the temporary folders `killed` by a run that begins now."""
    read = _describe_amount(killed)
    why = _find_hindrance(data, pipeline_options)
    wanted = None if why else describe_inputs(data, source)
    if force:
        why = "--force was given"
    if wanted is None or why or not killed:
        return Left(read, wanted, why=why if killed else "")
    usable: list[str] = []
    known = None
    for folder in killed:
        found = _read_note(folder)
        reason = _explain_unusable(folder, found, wanted, known=known)
        if found is None or reason:
            why = why or reason
            continue
        usable.append(folder)
        known = known or found.fingerprint
    return Left(read, wanted, tuple(usable), "" if usable else why, known)


def _describe_amount(folders: Sequence[str]) -> str:
    """Returns how much was read, by the files in temporary folders."""
    size = sum(map(scanned.count_bytes_read, folders))
    return figures.size(size) if size else f"{sum(map(spill.count_rows_written, folders)):,} rows"


def _find_hindrance(data: config.Data, pipeline_options: Sequence[str]) -> str:
    """Returns why no later run can use the pieces of one like this, empty if one can."""
    if data.source not in SOURCES:
        return "changes of your own data.source would not be noticed"
    if any(option.startswith("--runner") for option in pipeline_options):
        return "only Beam's own local runner can use them"
    return ""


def _explain_unusable(
    folder: str, found: MadeOf | None, wanted: MadeOf, *, known: str | None
) -> str:
    """Returns why nothing in a folder can be used; `known` is the fingerprint of another one that
    can be."""
    if found is None or not pieces.count_finished(folder):
        return "no piece of them was finished"
    if found.code != wanted.code:
        return "another version of the code or of a library had read them"
    if found.settings != wanted.settings:
        return "they were read with other settings or corrections"
    if found.files != wanted.files or (known or found.fingerprint) != (found.fingerprint or known):
        return "a raw file was written or touched since"
    return ""


def _read_note(folder: str) -> MadeOf | None:
    try:
        return MadeOf(**strict_json.loads(storage.read_text(storage.join(folder, _NOTE))))
    except (FileNotFoundError, errors.DataError, ValueError, TypeError):
        return None


def print_why_not(left: Left) -> None:
    """Says that killed runs have left something, and why none of it can be used."""
    if left.why:
        print(
            f"an unfinished run had read {left.read} of these records; starting over: {left.why}",
            flush=True,
        )


def print_what_was_removed(others: Sequence[str], records: str) -> None:
    """Says that there were pieces of another build in temporary folders `others`, of which those of
    killed runs have been removed from `records`."""
    if set(others) - set(storage.listdir(records)):
        print(
            "an unfinished run with other settings or raw files had left pieces; they are of "
            "another build, so they are not used",
            flush=True,
        )


def begin(left: Left, chunks: Sequence[Chunk], temporary: str) -> pieces.Keeping:
    """Moves what can be used into the temporary folder of this run, says how much that is, and
    removes the rest. Returns which pieces are there, and whether those of this run are to stay."""
    if left.wanted is None:
        return pieces.NOTHING
    _write_note(temporary, dataclasses.replace(left.wanted, fingerprint=left.fingerprint))
    taken = pieces.move_finished(left.folders, chunks, temporary)
    discard(left)
    if taken:
        print(
            f"an unfinished run had finished {len(taken):,} of {len(chunks):,} pieces "
            f"({_describe_amount([temporary])}): using them",
            flush=True,
        )
    elif left.folders:
        print_why_not(dataclasses.replace(left, why="what it left is damaged"))
    return pieces.Keeping(marked=True, there=taken)


def discard(left: Left) -> None:
    """Removes what killed runs have left, and what was not moved."""
    for folder in left.folders:
        record_folders.remove(folder)


def note_fingerprint(left: Left, temporary: str, found: str) -> None:
    """Writes down the fingerprint of a run that has begun, once it is known."""
    if left.wanted is not None and left.fingerprint is None:
        _write_note(temporary, dataclasses.replace(left.wanted, fingerprint=found))


def can_be_used(temporary: str, error: BaseException) -> bool:
    """Tells if the temporary folder of a run that `error` has ended stays for the next one: it was
    interrupted or lost a worker, has finished pieces, and does not take the rest of a full disk."""
    ended_from_outside = isinstance(error, KeyboardInterrupt | errors.RetryableError)
    return (
        ended_from_outside
        and pieces.count_finished(temporary) > 0
        and not storage.is_full(temporary)
    )


def check(left: Left, made: str, temporary: str) -> None:
    """Raises `RetryableError` if pieces were used of raw files with another fingerprint than that
    of those that were `made` into records now, and removes these pieces in `temporary`."""
    if left.folders and left.fingerprint not in (None, made):
        record_folders.remove(temporary)
        raise errors.RetryableError(
            "the raw files are not those that a killed run has read, though the storage gives them "
            "the same size and time. What it left is removed; run the same command again"
        )


def _write_note(temporary: str, found: MadeOf) -> None:
    text = strict_json.dumps(dataclasses.asdict(found))
    storage.write_text(storage.join(temporary, _NOTE), text)
