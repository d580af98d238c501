"""Where a search is kept: a file of JSON lines in the storage, which Optuna writes and replays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from optuna.storages import journal

from pipeline import errors, storage


class Journal(journal.BaseJournalBackend):
    """A journal at a path, local or on gs://, that one process writes: whoever uses it holds the
    lock of the search.

    On a disk a line is appended. An object on gs:// cannot be, and is written again whole. A line
    that a killed process has written in part is dropped.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines, torn = _read_lines(path)
        self._entries = [
            _parse_entry(path, number, line) for number, line in enumerate(self._lines, 1)
        ]
        if torn:
            storage.write_text(path, "".join(self._lines))

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Returns the entries from that number on."""
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Adds entries; they are on the disk when it returns."""
        lines = [f"{json.dumps(one)}\n" for one in logs]
        if storage.is_remote(self._path):
            storage.write_text(self._path, "".join([*self._lines, *lines]))
        else:
            _append(self._path, "".join(lines))
        self._lines += lines
        self._entries += logs


def _read_lines(path: str) -> tuple[list[str], bool]:
    """Returns the whole lines of a journal, and whether there is a part of one."""
    text = storage.read_text(path) if storage.exists(path) else ""
    lines = text.splitlines(keepends=True)
    torn = bool(lines) and not lines[-1].endswith("\n")
    return (lines[:-1] if torn else lines), torn


def _parse_entry(path: str, number: int, line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        raise errors.DataError(
            f"{path!r} line {number}: not a line of a search; remove the folder to begin again"
        ) from None


def _append(path: str, text: str) -> None:
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write {path!r}") from None
