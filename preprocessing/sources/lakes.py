"""Tables of which a log says which files count: those files are not the rows of the table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline import errors, storage

# Folders of a table in which its files may lie.
_WITHIN = re.compile(r"data|[^=/]+=[^/]*")


def refuse(folders: Iterable[str]) -> None:
    """Raises `DataError` if one of the folders is such a table, or is a folder of one's files."""
    seen: set[str] = set()
    for folder in map(storage.make_absolute, folders):
        while folder not in seen:
            seen.add(folder)
            if kind := _find_kind(folder):
                raise errors.DataError(
                    f"{folder!r}: is {kind} table: a log says which of its files count, and some "
                    "were removed or replaced. Read it with a library of that format, write the "
                    "rows to Parquet files in another folder, and name these"
                )
            if not _WITHIN.fullmatch(folder.rpartition("/")[2]):
                break
            folder = storage.parent(folder)


def _find_kind(folder: str) -> str | None:
    if storage.exists(storage.join(folder, "_delta_log")):
        return "a Delta"
    if storage.exists(storage.join(folder, ".hoodie")):
        return "a Hudi"
    names = storage.listdir(storage.join(folder, "metadata"))
    return "an Iceberg" if any(name.endswith(".metadata.json") for name in names) else None
