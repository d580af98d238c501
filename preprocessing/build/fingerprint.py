"""Names a records set by what it is made from, so that equal work is done once."""

from __future__ import annotations

import hashlib
import threading

from pipeline import config, errors, storage
from pipeline.config.column_config import JSON
from pipeline.records import builds, manifest
from pipeline.source_table import SOURCES
from preprocessing.sources.base import RawFile

# Raised when the same config and files would give other bytes than before.
FORMAT = 5
_READ_BYTES = 1 << 20
# More files than this (images) are named by folder, or the manifest would grow with the data.
MAX_LISTED = 1000


def hash_sources(files: list[RawFile], stop: threading.Event) -> tuple[manifest.SourceFile, ...]:
    """Returns size and SHA-256 of each raw file, or of each folder of many.

    Raises `DataError` naming one that is not readable.

    It reads everything, which takes long on much data; once `stop` is set it returns nonsense soon.
    """
    found = [_hash_source(file, stop) for file in files]
    return tuple(found if len(found) <= MAX_LISTED else _group_by_folder(found))


def _group_by_folder(found: list[manifest.SourceFile]) -> list[manifest.SourceFile]:
    """Puts the files of one folder together: the hash is that of their names and hashes."""
    folders: dict[str, list[manifest.SourceFile]] = {}
    for source in found:
        folders.setdefault(source.name.rpartition("/")[0], []).append(source)
    return [
        manifest.SourceFile(
            name=f"{folder}/*",
            bytes=sum(source.bytes for source in inside),
            sha256=config.digest({source.name: source.sha256 for source in inside}),
        )
        for folder, inside in folders.items()
    ]


def _choose_format(data: config.Data) -> int:
    """Returns the format of the records. Those of numbers in groups of digits are one further, as
    0,346 was taken for 346 once; so are those of text files, where +5 was no whole number and NaN
    of JSON was one of its own, one more, as numbers next to a no-break space were none, and one
    more, as an id beyond int64 was another with .0 behind it. Those with float32 are one further,
    as NaN and infinite values were numbers; and those of a sample, whose manifest had labels in
    the order of their counts in the sample. Those with lists of texts or in JSON are one
    further, as a NaN among numbers was the text nan, and 0x10 in a text a number;
    and those of lists in JSON lines, where true was no item next to a number. Those with texts
    of files that have numbers are one further, as an infinite one was the text inf; and those of
    JSON lines, of whose columns that folders are called like those of the folders were read, and
    one more, as a row with a number beyond double in another member was none."""
    floats = any(column.type == "float32" for column in data.columns.values())
    texts = data.source in SOURCES and SOURCES[data.source].text
    sampled = data.sample is not None
    lists = any(
        c.separator == JSON
        or ((c.list or c.shape) and (c.type == "string" or data.source == "jsonl"))
        for c in data.columns.values()
    )
    typed = data.source in SOURCES and SOURCES[data.source].typed
    singles = any(c.type == "string" and not (c.list or c.shape) for c in data.columns.values())
    written = singles and not (texts or typed)
    lines = data.source == "jsonl"
    marks = bool(data.csv.thousands) + 3 * texts
    return FORMAT + marks + floats + sampled + lists + written + 2 * lines


def compute_fingerprint(data: config.Data, found: tuple[manifest.SourceFile, ...]) -> str:
    """Returns a hex hash of all that decides the records' bytes, but not of where files lie."""
    return config.digest(
        {
            "format": _choose_format(data),
            "data": builds.find_deciding_settings(data),
            "sources": [source.model_dump(mode="json") for source in found],
        }
    )


def compute_base(data: config.Data, files: list[RawFile]) -> str:
    """Returns what the name of a build begins with, before all raw files have been hashed.

    Builds of files that differ in their contents alone may share it; they are numbered. Of files
    that are used in place, so do those of other sizes: what has changed can then be told. Raises
    `DataError` naming a file that does not exist.
    """
    names = [[file.name, None if data.in_place else _find_size(file)] for file in files]
    return config.digest(
        {
            "format": _choose_format(data),
            "data": builds.find_deciding_settings(data),
            "files": names,
        }
    )[:12]


def _find_size(file: RawFile) -> int:
    try:
        return storage.size(file.path)
    except FileNotFoundError:
        raise errors.DataError(f"{file.path!r}: no such file") from None


def _hash_source(file: RawFile, stop: threading.Event) -> manifest.SourceFile:
    digest, size = hashlib.sha256(), 0
    try:
        with storage.open_file(file.path) as content:
            while (block := content.read(_READ_BYTES)) and not stop.is_set():
                digest.update(block)
                size += len(block)
    except FileNotFoundError:
        raise errors.DataError(f"{file.path!r}: no such file") from None
    except OSError as error:
        raise errors.DataError(
            f"{file.path!r}: cannot be read: {error.strerror or error}"
        ) from None
    return manifest.SourceFile(name=file.name, bytes=size, sha256=digest.hexdigest())
