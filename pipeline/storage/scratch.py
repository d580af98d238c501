"""Folders for large temporary files, which are removed even if their process was killed.

Each has an unpredictable name, is accessible to its owner only, and is locked by the process that
made it. The next process that makes one removes those of the same owner that are not locked.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator

from pipeline import errors

_held: dict[str, int] = {}  # descriptors, by folder; closing one gives up its lock


def make(purpose: str) -> str:
    """Returns a new folder in the temporary folder. It is removed by `remove`, when this process
    ends, or by the next one that calls this. Raises `PipelineError` if it cannot be made."""
    prefix = os.path.join(tempfile.gettempdir(), f"estimator-pipeline-{purpose}-")
    for path in glob.glob(f"{glob.escape(prefix)}*"):
        _remove_abandoned(path)
    try:
        path, descriptor = _make_locked(prefix)
    except OSError as error:
        doing = f"cannot make a folder {prefix}*"
        raise errors.translate_os_error(error, doing, place_of="TMPDIR=") from None
    if not _held:
        atexit.register(_remove_all, os.getpid())
    _held[path] = descriptor
    return path


def _make_locked(prefix: str) -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=prefix)
        # Until it is locked, another process may take it for an abandoned one.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return path, descriptor
            os.close(descriptor)


def remove(path: str) -> None:
    """Removes a folder that `make` returned; absent is fine."""
    shutil.rmtree(path, ignore_errors=True)
    descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@contextlib.contextmanager
def folder(purpose: str) -> Iterator[str]:
    """Yields a folder that `make` returns, and removes it afterwards."""
    path = make(purpose)
    try:
        yield path
    finally:
        remove(path)


def _remove_all(owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked from it has the same list
        for path in list(_held):
            remove(path)


def _remove_abandoned(path: str) -> None:
    """Removes a folder of this user that no process has locked."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
