"""How a process says how it is doing: one small status file, rewritten every second or so."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from typing import Any

from pipeline import run_folder, storage

_LOCAL_INTERVAL = 1.0  # seconds
# Cloud Storage takes about one write a second of one object; other processes write theirs too.
_REMOTE_INTERVAL = 15.0


class Reporter:
    """Keeps the status of one process and writes it when asked to, at most once an interval."""

    def __init__(self, run: run_folder.RunFolder, task: str, max_steps: int) -> None:
        self._run = run
        self._interval = _REMOTE_INTERVAL if storage.is_remote(run.path) else _LOCAL_INTERVAL
        self._written = 0.0
        self._status = run_folder.Status(
            task=task,
            pid=os.getpid(),
            host=socket.gethostname(),
            state="starting",
            time=time.time(),
            max_steps=max_steps,
        )

    @property
    def due(self) -> bool:
        """True if the last word is older than the interval."""
        return time.time() - self._written >= self._interval

    def note(self, **values: Any) -> None:
        """Keeps `values` for the next word."""
        self._status = dataclasses.replace(self._status, **values)

    def note_seconds(self, seconds: dict[str, float]) -> None:
        """Adds to what is known of where the time goes, for the next word."""
        rounded = {name: round(value, 6) for name, value in seconds.items()}
        self.note(seconds={**(self._status.seconds or {}), **rounded})

    def say(self, state: str, **values: Any) -> None:
        """Writes the status now. `values` are fields of `Status`; the others keep theirs."""
        self._written = time.time()
        self._status = dataclasses.replace(self._status, state=state, time=self._written, **values)
        run_folder.write_status(self._run, self._status)
