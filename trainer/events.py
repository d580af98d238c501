"""Event files of a run on gs://: written on this machine, and copied there now and then.

TensorFlow's writers upload the whole file again at every flush (traps E7), while training waits.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from pipeline import storage

# Seconds between two copies: at least so many, and so many times what the last one took, because
# each copies all that has been written so far.
_INTERVAL, _COSTS = 30.0, 20
# The folder of a worker that saves beside the chief; nobody reads its events.
_OF_WORKER = "tmp_"

_Cache = tf.compat.v1.summary.FileWriterCache


@contextlib.contextmanager
def written_here(model_dir: str) -> Iterator[None]:
    """Lets all writers of `model_dir`, and of folders in it, write to a folder of this machine.

    Does nothing for a run on a disk. At the end, and every now and then, what they have written is
    copied to its place.
    """
    if not storage.is_remote(model_dir):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="estimator-pipeline-events-") as folder:
        copies, original = Copies(folder, model_dir), _Cache.get
        _Cache.get = staticmethod(lambda logdir: original(copies.place(logdir)))
        ended = threading.Event()
        thread = threading.Thread(target=copies.follow, args=(ended.wait,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            _Cache.get = original
            ended.set()
            thread.join()
            copies.copy()


class Copies:
    """Files of a local `folder` that are to be below `target` too."""

    def __init__(self, folder: str, target: str) -> None:
        self._folder, self._target = folder, target
        self._places: dict[str, str] = {}
        self._copied: dict[str, int] = {}

    def place(self, logdir: str) -> str:
        """Returns the local folder for what is to be in `logdir`; other folders stay theirs."""
        logdir = logdir.rstrip("/")
        if logdir != self._target and not logdir.startswith(f"{self._target}/"):
            return logdir
        below = logdir[len(self._target) :].strip("/")
        place = os.path.join(self._folder, *filter(None, below.split("/")))
        if not below.startswith(_OF_WORKER):
            self._places[place] = logdir
        return place

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

    def copy(self) -> None:
        """Copies what has grown since it was copied last."""
        for place, logdir in list(self._places.items()):
            writer = _Cache._cache.get(place)
            if writer is not None:
                writer.flush()
            for entry in os.scandir(place) if os.path.isdir(place) else ():
                size = entry.stat().st_size
                if entry.is_file() and self._copied.get(entry.path) != size:
                    storage.copy(entry.path, storage.join(logdir, entry.name))
                    self._copied[entry.path] = size
