"""A folder for what a process writes on its way to one file, gone when the process is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator

from pipeline import errors, storage

_LOCK, _PARTS = ".lock", ".parts-"


@contextlib.contextmanager
def make_temporary_folder(path: str) -> Iterator[str]:
    """Makes a folder next to `path` that no other process has, and removes it at the end.

    Those for the same `path` whose processes were killed are removed first; on gs://, where that is
    unknown, they stay. Errors of what lies in the folder name the file instead, which is what users
    know.
    """
    with _name_output(path), _make_folder(path) as folder:
        yield folder


@contextlib.contextmanager
def _name_output(path: str) -> Iterator[None]:
    try:
        yield
    except errors.PipelineError as error:
        inside = re.escape(f"{path}{_PARTS}") + r"[^\s'\"]*"
        said = re.sub(inside, lambda _: path, str(error))
        if said == str(error):
            raise
        raise type(error)(said) from None


@contextlib.contextmanager
def _make_folder(path: str) -> Iterator[str]:
    parent, prefix = storage.parent(path), f"{path.rpartition('/')[2]}{_PARTS}"
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
    storage.makedirs(parent)
    try:
        os.mkdir(folder)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write {path!r}") from None
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
