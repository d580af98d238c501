"""Runs the trainer's commands as processes forked from one that has imported TensorFlow.

They are what `python -m trainer.task` is, without three seconds of imports each.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import runpy
import sys

from pipeline.processes.fork_client import Ended, ForkServer, Spawn, Started
from tests.pipeline.process_help import child_environment

# These check what they export; the fork of a process of which no op has run answers for it.
EXPORTING = ("trainer.task", "trainer.migrate")
SECONDS = 300  # nothing here may take this long; it keeps a hanging test from hanging all


def run_module(module: str, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    """What the forked process does."""
    os.environ.update(variables)
    sys.argv = [module, *arguments]
    if module in EXPORTING:
        from trainer.export import forked_worker  # imports TensorFlow

        forked_worker.fork_ahead()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class Commands:
    """Starts commands below one storage root, and keeps what they print."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._pids: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        environment = {**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}
        self._server = ForkServer(
            "trainer.roles", log=str(folder / "server.log"), environment=environment
        )

    def start(self, module: str, *arguments: str, variables: dict[str, str] | None = None) -> str:
        """Starts `python -m module arguments`, with more environment variables, and returns its
        name."""
        name = f"{module}-{next(self._numbers)}"
        log = str(self._log(name))
        entry = f"{__name__}:run_module"
        self._server.spawn(Spawn(name, entry, (module, arguments, variables or {}), log))
        return name

    def run(self, module: str, *arguments: str, code: int = 0) -> str:
        """Runs a command to its end and returns what it printed, errors included."""
        return self.end(self.start(module, *arguments), code)

    def end(self, name: str, code: int = 0) -> str:
        """Waits until a command has ended with `code`."""
        for _ in range(SECONDS):
            if name in self._ended:
                break
            self._note(1.0)
        else:
            raise AssertionError(f"still running after {SECONDS} s: {self.output(name)}")
        assert self._ended[name] == code, self.output(name)
        return self.output(name)

    def has_ended(self, name: str) -> bool:
        """Tells whether a command has ended, after a moment."""
        self._note(0.2)
        return name in self._ended

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to a command that runs."""
        while name not in self._pids and name not in self._ended:
            self._note(1.0)
        self._server.signal(name, number)

    def find_pid(self, name: str) -> int:
        """Returns the process of a command, when it has started."""
        while name not in self._pids:
            self._note(1.0)
        return self._pids[name]

    def output(self, name: str) -> str:
        """Returns what a command has printed so far."""
        return self._log(name).read_text() if self._log(name).exists() else ""

    def close(self) -> None:
        """Ends all."""
        self._server.close()

    def _note(self, timeout: float) -> None:
        for event in self._server.wait(timeout):
            if isinstance(event, Started):
                self._pids[event.name] = event.pid
            elif isinstance(event, Ended):
                self._ended[event.name] = event.code

    def _log(self, name: str) -> pathlib.Path:
        return self._folder / f"{name}.log"


def error_line(output: str) -> str:
    """Returns the one line of error a command ended with; fails if there is a traceback."""
    assert "Traceback" not in output, output
    lines = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, output
    return lines[0]


def stopped_line(output: str) -> str:
    """Returns the one line a command ended with that was asked to; fails if it calls that an
    error."""
    assert "Traceback" not in output and "error: " not in output, output
    lines = [line for line in output.splitlines() if line.startswith("stopped")]
    assert len(lines) == 1, output
    return lines[0]
