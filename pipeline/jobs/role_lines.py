"""What each process of a cluster is doing, in lines below the bar of a terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from pipeline.console import terminal, text_table
from pipeline.console.progress import Line, duration
from pipeline.runs import run_folder
from pipeline.runs.run_folder import Status

# Lines at most, and lines that are left to all else.
_MOST, _ELSE = 8, 4
# Seconds of a training process without news, before that is news.
_QUIET = 5.0


class RoleLines:
    """A line per process on a terminal; nothing elsewhere, or for one process alone."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._stream, self._clock = stream, clock
        self._most = min(_MOST, _rows(stream) - _ELSE) if stream.isatty() else 0
        self._lines: list[Line] = []

    def show(self, statuses: Mapping[str, Status]) -> None:
        """Says of each process what it last said of itself."""
        if self._most <= 1 or len(statuses) < 2:
            return
        texts = self._texts([statuses[name] for name in sorted(statuses)])
        while len(self._lines) < len(texts):
            # The first line is the bar's. Sizes of its own it would ask the terminal for.
            place = len(self._lines) + 1
            line = Line(file=self._stream, leave=False, ncols=80, nrows=24, position=place)
            self._lines.append(line)
        for line, text in zip(self._lines, texts, strict=False):
            if line.text != text:
                line.text = text
                line.refresh()

    def _texts(self, statuses: list[Status]) -> list[str]:
        room = terminal.width(self._stream) - 3
        shown = statuses if len(statuses) <= self._most else statuses[: self._most - 1]
        rows = text_table.lines([self._cells(status) for status in shown], right={2, 3})
        if len(shown) < len(statuses):
            rows.append(f"and {len(statuses) - len(shown)} more: make status")
        return [f"  {row[:room]}" for row in rows]

    def _cells(self, status: Status) -> tuple[str, ...]:
        silent = self._clock() - status.time
        rate = status.examples_per_second
        working = status.state not in run_folder.ENDED
        return (
            status.task,
            status.activity,
            "" if status.step is None else f"step {status.step:,}",
            "" if rate is None or not working else f"{rate:,.0f} examples/s",
            f"no news for {duration(silent)}"
            if status.state == "training" and silent > _QUIET
            else "",
        )

    def close(self) -> None:
        """Takes the lines away."""
        for line in reversed(self._lines):
            line.close()
        if self._lines:
            self._stream.write("\r")  # they leave the cursor where they ended
        self._lines = []


def _rows(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError, AttributeError):
        return 24
