"""Signs of life of workers that this process did not start: on Flink, on Spark, in a worker pool.

Beam waits for ever for a worker that is lost, or was never started. So each worker rewrites a file
in the temporary folder, which all of them and this process see, from its first piece of work until
it ends. When none has been rewritten for a while there is no worker any more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

from pipeline import errors, storage

_FOLDER, _WANTED, _SIGN = "alive", "wanted", "worker-"
BEAT = 5.0  # seconds between two signs
# Seconds without any, and before the first: engines may have to start machines.
SILENCE, START = 45.0, 600.0
_begun: set[str] = set()
_beginning = threading.Lock()


def begin(folder: str, *, beat: float = BEAT) -> None:
    """Lets this process give signs of life for the job with a temporary `folder` until it ends, if
    anybody looks for them."""
    with _beginning:
        if folder in _begun or not storage.exists(_build_path(folder, _WANTED)):
            return
        _begun.add(folder)
    threading.Thread(target=_beat_on, args=(folder, beat), name="alive", daemon=True).start()


def _beat_on(folder: str, beat: float) -> None:
    path = _build_path(folder, f"{_SIGN}{socket.gethostname()}-{os.getpid()}")
    while storage.exists(_build_path(folder, _WANTED)):
        with contextlib.suppress(errors.PipelineError, OSError):
            storage.write_text(path, f"{time.time():.3f}\n")
        time.sleep(beat)


def _build_path(folder: str, name: str) -> str:
    return storage.join(folder, _FOLDER, name)


class Pulse:
    """What the process that waits for the workers sees of them. Times are of its own clock, in
    seconds."""

    def __init__(
        self,
        folder: str,
        *,
        silence: float = SILENCE,
        start: float = START,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._clock = folder, clock
        self._silence, self._start = silence, start
        self._seen: dict[str, str] = {}
        self._since = clock()
        storage.remove(storage.join(folder, _FOLDER))  # of an earlier attempt
        storage.write_text(_build_path(folder, _WANTED), "", parents=True)

    def check(self) -> None:
        """Raises `RetryableError` if no worker has given a sign of life for too long."""
        with contextlib.suppress(errors.PipelineError, OSError):
            seen = self._look()
            if seen != self._seen:
                self._seen, self._since = seen, self._clock()
        silent = self._clock() - self._since
        if not self._seen and silent >= self._start:
            raise errors.RetryableError(
                f"no worker has begun for {silent:.0f} s. Check that worker pools are running, "
                "that the first `python` in their PATH has this package, and that they see "
                f"{self._folder!r}; then run the same command again."
            )
        if self._seen and silent >= self._silence:
            raise errors.RetryableError(
                f"all workers are lost: no sign of life for {silent:.0f} s. Check the worker pools "
                "and the engine, then run the same command again."
            )

    def _look(self) -> dict[str, str]:
        names = storage.listdir(storage.join(self._folder, _FOLDER))
        signs = [name for name in names if name.startswith(_SIGN) and not name.endswith(".tmp")]
        paths = {name: _build_path(self._folder, name) for name in signs}
        return {name: storage.read_text(path) for name, path in paths.items()}

    def end(self) -> None:
        """Asks for no more signs of life. One that is written at this moment may outlive its folder
        until the temporary folder is removed."""
        for path in (_build_path(self._folder, _WANTED), storage.join(self._folder, _FOLDER)):
            with contextlib.suppress(errors.PipelineError, OSError):
                storage.remove(path)
