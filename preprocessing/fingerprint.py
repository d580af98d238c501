"""Names a records set by what it is made from, so that equal work is done once."""

from __future__ import annotations

import hashlib

from pipeline import config, errors, manifest, storage
from preprocessing.sources.base import RawFile

# Raised when the same config and files would give other bytes than before.
FORMAT = 1
_READ_BYTES = 1 << 20


def sources(files: list[RawFile]) -> tuple[manifest.Source, ...]:
    """Returns size and SHA-256 of each raw file. Raises `DataError` naming one not readable."""
    return tuple(_source(file) for file in files)


def fingerprint(data: config.Data, found: tuple[manifest.Source, ...]) -> str:
    """Returns a hex hash of all that decides the records' bytes, but not of where files lie."""
    return config.digest(
        {
            "format": FORMAT,
            "data": data.model_dump(mode="json", exclude={"inputs"}),
            "sources": [source.model_dump(mode="json") for source in found],
        }
    )


def _source(file: RawFile) -> manifest.Source:
    digest, size = hashlib.sha256(), 0
    try:
        with storage.open_file(file.path) as content:
            while block := content.read(_READ_BYTES):
                digest.update(block)
                size += len(block)
    except FileNotFoundError:
        raise errors.DataError(f"{file.path!r}: no such file") from None
    except OSError as error:
        raise errors.DataError(
            f"{file.path!r}: cannot be read: {error.strerror or error}"
        ) from None
    return manifest.Source(name=file.name, bytes=size, sha256=digest.hexdigest())
