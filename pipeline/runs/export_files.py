"""The files of an exported model, and whether they are still what was published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pipeline import errors, storage
from pipeline.console import work

# The file that makes a folder a SavedModel, to all that read it.
LAST = "saved_model.pb"
_CHUNK = 8 << 20


def is_published(folder: str) -> bool:
    """True if there is a whole model in a folder."""
    return storage.exists(storage.join(folder, LAST))


def digests(folder: str) -> dict[str, str]:
    """Returns the SHA-256 of every file below a folder, by its path in it."""
    found = {}
    for path in storage.glob(storage.join(folder, "**")):
        found[path[len(folder) :].lstrip("/")] = _compute_digest(path)
    return found


def _compute_digest(path: str) -> str:
    made = hashlib.sha256()
    with storage.open_file(path) as file:
        while chunk := file.read(_CHUNK):
            made.update(chunk)
            work.advance(len(chunk))
    return made.hexdigest()


def verify(folder: str, wanted: Mapping[str, str]) -> None:
    """Raises `DataError` naming the first file that is not as it was published."""
    found = digests(folder)
    for name in sorted({*found, *wanted}):
        if found.get(name) == wanted.get(name):
            continue
        what = "altered" if name in found and name in wanted else "added"
        what = what if name in found else "missing"
        raise errors.DataError(
            f"export {folder!r}: {name!r} was {what} after it was published, by its SHA-256 in "
            "run.json. Remove the export and run make train again to export again."
        )
