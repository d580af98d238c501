"""A small file system in memory, which can be full and have room again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import time

from pipeline.processes import isolation

_PAGE = 4096
_ATTEMPTS = 50
_FOR_LOGS = 64 << 20  # bytes besides what a run keeps
_COPIES = 3  # of a run's folder, while a checkpoint is written and models are exported


def size_of(folder: str) -> int:
    """Returns how many bytes the files below a folder have."""
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def estimate_bytes(run: str) -> int:
    """Returns the bytes that a run like the finished one in the folder `run` may need."""
    return _COPIES * size_of(run) + _FOR_LOGS


def find_obstacle(size: int) -> str | None:
    """Returns why there can be no such disk of `size` bytes here, or `None`."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > free // 2:
        return f"a run needs {size >> 20:,} MiB, more than half of the {free >> 20:,} MiB free"
    return None


class SmallDisk:
    """A disk of `size` bytes at `folder`, which is empty, until `keep` puts plain files there.

    Only in a process with mounts of its own, `isolation.enter_mounts`: they end with it.
    """

    def __init__(self, folder: str, size: int) -> None:
        """Raises `OSError` if it cannot be mounted."""
        self._folder, self._size = folder, size
        self._mounted = True
        os.makedirs(folder, exist_ok=True)
        isolation.mount("tmpfs", folder, f"size={size}")

    def fill(self) -> None:
        """Leaves no room: the disk ends where its files do."""
        for _ in range(_ATTEMPTS):
            found = os.statvfs(self._folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            # Not possible if something has been written meanwhile.
            with contextlib.suppress(OSError):
                self._resize(max(used, _PAGE))
                return
            time.sleep(0.01)
        raise OSError("the disk cannot be filled")

    def free(self) -> None:
        """Makes room again."""
        self._resize(self._size)

    def _resize(self, size: int) -> None:
        options = f"size={size}"
        isolation.mount("tmpfs", self._folder, options, flags=isolation.MS_REMOUNT)

    def keep(self) -> None:
        """Takes the disk away, and leaves its files where it was."""
        if not self._mounted:
            return
        self._mounted = False
        copy = f"{self._folder}.kept"
        shutil.copytree(self._folder, copy, symlinks=True)
        isolation.unmount(self._folder)
        os.rmdir(self._folder)
        os.rename(copy, self._folder)
