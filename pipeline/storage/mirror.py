"""Files that are written on this machine and copied to gs:// now and then.

An object cannot be appended to: each copy sends the whole file again, so there are few of them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import storage

# Seconds between two copies: at least so many, and so many times what the last one took, because
# each copies all that has been written so far.
_INTERVAL, _COSTS = 30.0, 20


class Copies:
    """Local folders whose files are to be in folders on gs:// too."""

    def __init__(self) -> None:
        self._targets: dict[str, tuple[str, ...]] = {}
        self._copied: dict[str, int] = {}
        self._one_at_a_time = threading.Lock()

    def add(self, folder: str, *targets: str) -> None:
        """From now on files of the local `folder` are copied to each of `targets`."""
        self._targets[folder] = targets

    def copy(self) -> None:
        """Copies what has grown since it was copied last."""
        with self._one_at_a_time:
            for folder, targets in list(self._targets.items()):
                for entry in os.scandir(folder) if os.path.isdir(folder) else ():
                    size = entry.stat().st_size
                    if entry.is_file() and self._copied.get(entry.path) != size:
                        for target in targets:
                            storage.copy(entry.path, storage.join(target, entry.name))
                        self._copied[entry.path] = size

    def follow(
        self, wait: Callable[[float], Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Copies again and again, until `wait` returns true."""
        pause = _INTERVAL
        while not wait(pause):
            began = clock()
            # What cannot be copied now is copied later; at the end it is an error.
            with contextlib.suppress(Exception):
                self.copy()
            pause = max(_INTERVAL, _COSTS * (clock() - began))


@contextlib.contextmanager
def keep_up(copies: Copies) -> Iterator[None]:
    """Copies in the background while the body runs, and once more at its end."""
    ended = threading.Event()
    thread = threading.Thread(target=copies.follow, args=(ended.wait,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        copies.copy()
