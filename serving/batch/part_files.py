"""A folder for what a process writes on its way to one file, gone when the process is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator

from pipeline import storage

_LOCK = ".lock"


@contextlib.contextmanager
def beside(path: str) -> Iterator[str]:
    """Makes a folder next to `path` that no other process has, and removes it at the end.

    Those for the same `path` whose processes were killed are removed first; on gs://, where that is
    unknown, they stay.
    """
    parent, prefix = storage.parent(path), f"{path.rpartition('/')[2]}.parts-"
    folder = storage.join(parent, f"{prefix}{secrets.token_hex(4)}")
    if storage.is_remote(path):
        storage.makedirs(folder)
        try:
            yield folder
        finally:
            storage.remove(folder)
        return
    for name in storage.listdir(parent):
        if name.startswith(prefix):
            _remove_if_left(storage.join(parent, name))
    storage.makedirs(folder)
    descriptor = os.open(storage.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        storage.remove(folder)
        os.close(descriptor)


def _remove_if_left(folder: str) -> None:
    """Removes a folder whose lock is free."""
    with contextlib.suppress(OSError):
        descriptor = os.open(storage.join(folder, _LOCK), os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            storage.remove(folder)
        finally:
            os.close(descriptor)
