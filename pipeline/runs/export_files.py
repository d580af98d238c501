"""The files of an exported model, and whether they are still what was published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pipeline import errors, storage
from pipeline.console import work
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

# The file that makes a folder a SavedModel, to all that read it.
LAST = "saved_model.pb"
_CHUNK = 8 << 20


def is_published(folder: str) -> bool:
    """True if there is a whole model in a folder."""
    return storage.exists(storage.join(folder, LAST))


def are_published(run: RunFolder, result: Mapping[str, Any]) -> bool:
    """True if the models of a finished run are there, by its `RESULT.json`, and the record of the
    best one, by which commands find it."""
    exports: Mapping[str, str | None] = result.get("exports", {})
    paths = [path for path in exports.values() if path]
    if not all(is_published(storage.join(run.path, path)) for path in paths):
        return False
    try:
        return not exports.get("best") or run.read(run_folder.BEST) is not None
    except errors.DataError:
        return False


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
