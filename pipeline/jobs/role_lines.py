"""What each process of a cluster is doing, in lines below the bar of a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from pipeline.console import text_table
from pipeline.console.live_area import LiveArea
from pipeline.console.progress import duration
from pipeline.runs import run_folder
from pipeline.runs.run_folder import Status

# Lines at most, and lines that are left to all else.
_MOST, _ELSE = 8, 4
# Seconds of a training process without news, before that is news.
_QUIET = 5.0


class RoleLines:
    """A line per process in the live area; nothing for one process alone."""

    def __init__(self, area: LiveArea, clock: Callable[[], float] = time.time) -> None:
        self._area, self._clock = area, clock
        self._statuses: list[Status] = []

    def show(self, statuses: Mapping[str, Status]) -> None:
        """Says of each process what it last said of itself."""
        self._statuses = [statuses[name] for name in sorted(statuses)]
        if len(statuses) > 1:
            self._area.show("processes", self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws as many lines as there is room for."""
        most = min(_MOST, options.size.height - _ELSE)
        if most <= 1:
            return
        hidden = len(self._statuses) - most + 1 if len(self._statuses) > most else 0
        shown = self._statuses[: len(self._statuses) - hidden]
        rows = text_table.lines([self._cells(status) for status in shown], right={2, 3})
        if hidden:
            rows.append(f"and {hidden} more: make status")
        text = Text("\n".join(rows), no_wrap=True, overflow="crop")
        yield Padding(text, (0, 0, 0, 2), expand=False)

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
        self._area.hide("processes")
