"""Time that passes only in `sleep`, and a count of what is asked of a file system."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from pipeline.processes import signals

# Events of Python's audit hooks; looks at metadata have none.
_EVENTS = {"open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Over(BaseException):
    """The time to be simulated has passed."""


class Clock:
    """Stands in for the module `time`, and for waiting for a signal."""

    def __init__(self) -> None:
        self.now = 1e9
        self._end = self.now

    def time(self) -> float:
        """Returns the simulated time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Lets time pass at once. Raises `Over` at the end."""
        self.now += seconds
        if self.now >= self._end:
            raise Over

    def run(self, seconds: float, work: Callable[[], Any]) -> None:
        """Calls `work`, which may never return, for so many simulated seconds."""
        self._end = self.now + seconds
        names = ("time", "monotonic", "perf_counter")
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(Over))
            for name in names:
                stack.enter_context(mock.patch.object(time, name, self.time))
            stack.enter_context(mock.patch.object(time, "sleep", self.sleep))
            stack.enter_context(mock.patch.object(signals.stop_requested, "wait", self.sleep))
            work()


class Operations:
    """Counts operations below a folder: opening, listing, renaming, removing, looking at metadata.

    TensorFlow's own are not seen.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._counts = False
        self.number = 0
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._counts and event in _EVENTS:
            self._see(arguments[0])

    def _see(self, path: Any) -> None:
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self._folder):
            self.number += 1

    @contextlib.contextmanager
    def count_within(self) -> Iterator[None]:
        """Counts while the body runs."""
        stat = os.stat

        def see_stat(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
            self._see(path)
            return stat(path, *arguments, **named)

        self._counts = True
        try:
            with mock.patch.object(os, "stat", see_stat):
                yield
        finally:
            self._counts = False
