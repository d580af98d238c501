"""The clock of a disturbed run, which can jump.

Linux has no namespace for the time of day, and to set it needs root and hits the whole machine. So
it is that of Python that jumps: `moved_clock/sitecustomize.py`.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

from pipeline.faults.moved_clock import sitecustomize


class MovedClock:
    """The time of day of a run and of this process, until `close`; `path` is a file of its own."""

    def __init__(self, path: pathlib.Path) -> None:
        """It does not differ from the real one yet."""
        self._path, self.moved = path, 0.0
        path.write_bytes(sitecustomize.SECONDS.pack(0.0))
        self._undo = sitecustomize.follow(str(path))

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that processes need to have this clock."""
        folder = os.path.dirname(sitecustomize.__file__)
        before = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, *([before] if before else [])]),
            sitecustomize.VARIABLE: str(self._path),
        }

    def jump(self, seconds: float) -> None:
        """Moves it, for all processes at the same moment."""
        self.moved += seconds
        with self._path.open("r+b") as file:
            file.write(sitecustomize.SECONDS.pack(self.moved))

    def close(self) -> None:
        """Gives this process the real time again."""
        self._undo()
