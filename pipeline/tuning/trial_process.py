"""The command that trains a trial: `train`, as a person would give it, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

from pipeline.processes import memory, parent_death
from pipeline.supervision import exit_reason


class RunningTrial(Protocol):
    """A trial that trains."""

    def poll(self) -> int | None:
        """Returns the exit code, `None` while it runs."""

    def stop(self) -> None:
        """Asks it to save and to end."""

    def kill(self) -> None:
        """Ends it at once, and waits until it is gone."""

    def error(self) -> str:
        """Returns one line on why it has ended."""


class TrialProcess:
    """`estimator-pipeline train` with `words`; what it prints is appended to `log`. On this machine
    it ends with the process that started it, which must be a main thread."""

    def __init__(self, words: Sequence[str], log: str) -> None:
        self._log, self._kills_before = log, memory.count_kills()
        with open(log, "ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipeline", "train", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                # A Ctrl-C of the terminal is for the search, which then asks it to stop.
                start_new_session=True,
                preexec_fn=parent_death.arrange(),
            )

    def poll(self) -> int | None:
        """Returns the exit code, `None` while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Asks it to save and to end."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends it at once, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    def error(self) -> str:
        """Returns what it said itself before it ended, or what ended it."""
        lines = exit_reason.tail(self._log, self._log_start)
        code = self._process.wait()
        return exit_reason.cause(None, code, lines, kills_before=self._kills_before)
