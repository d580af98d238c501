"""How far a long piece of work is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.console.live_area import LiveArea

# Seconds between two plain lines; more of them, the longer the work takes already, and most if
# nothing has changed.
EVERY, _EVERY_AT_MOST = 5.0, 60.0
_SHARE = 0.05
# Columns of a bar.
_NARROWEST, _WIDEST = 6, 30


class Progress:
    """Shows count, time left and rate of one piece of work.

    On a terminal it is a bar that leaves when the work is done; on any other stream it is one
    line every `every` seconds, of work that stands still every minute, so that log files stay
    readable. `total` may be `None` if it is not known beforehand. Not thread-safe: one thread
    reports.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "records",
        stream: TextIO | None = None,
        area: LiveArea | None = None,
        clock: Callable[[], float] = time.monotonic,
        every: float = EVERY,
    ) -> None:
        """A bar that is not the only thing shown is given the `area` of `stream` it is part of."""
        self._label, self._total, self._unit = label, total, unit
        self._stream = sys.stdout if stream is None else stream
        self._area = LiveArea(self._stream, clock) if area is None else area
        self._clock, self._every = clock, every
        self._start = self._logged = clock()
        self._done = self._first = 0
        self._notes: tuple[str, ...] = ()
        self._is_stalled = False
        self._told: tuple[object, ...] | None = None  # what the last plain line was of

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def done(self) -> int:
        """Units finished so far."""
        return self._done

    def expect(self, total: int) -> None:
        """Says that it is `total` units by now."""
        self._total = total

    def begin_at(self, done: int) -> None:
        """Says how much was done before now. It does not count for the rate, nor does the time."""
        self._done = self._first = done
        self._start = self._clock()

    def advance(self, count: int, *notes: str) -> None:
        """Adds `count` finished units; `notes` are shown behind the figures."""
        self.reach(self._done + count, *notes)

    def reach(self, done: int, *notes: str, is_stalled: bool = False) -> None:
        """Says that `done` units are finished in all. Of `notes` the first are the last to be left
        out where there is little room. Work that is stalled has no rate and no time left."""
        self._done, self._notes, self._is_stalled = done, notes, is_stalled
        self._area.show("bar", self)
        now, state = self._clock(), (done, self._total, notes, is_stalled)
        if not self._area.is_shown and now - self._logged >= self._patience(now, state):
            self._logged, self._told = now, state
            print(self.line(*notes), file=self._stream, flush=True)

    def _patience(self, now: float, state: tuple[object, ...]) -> float:
        if state == self._told:
            return max(self._every, _EVERY_AT_MOST)
        return max(self._every, min(_EVERY_AT_MOST, _SHARE * (now - self._start)))

    def line(self, *notes: str) -> str:
        """Returns the state in one line, as the plain log has it."""
        of_total = "" if self._total is None else f" of {self._format_count(self._total)}"
        count = f"{self._format_count(self._done)}{of_total} {self._counted_in}"
        return f"{self._label}: {_join([count, self._rate(), self._format_time_left(), *notes])}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws the bar: as much as there is room for, of which the count and the time left are
        the last to be left out."""
        count = self._format_count(self._done)
        count += f"/{self._format_count(self._total)}" if self._total else ""
        count += "" if self._total and self._unit != "bytes" else f" {self._counted_in}"
        head = f"{self._label}:"
        if self._total:
            head = f"{self._label} {min(self._done / self._total, 1.0):4.0%}"
        rate = self._rate() if self._unit == "bytes" else self._rate(f" {self._unit}")
        parts = [count, self._format_time_left(), *self._notes, rate]
        while (room := options.max_width - cell_len(f"{head} {_join(parts)} ")) < _NARROWEST:
            if len(parts) == 2:
                break
            parts.pop()
        row: list[RenderableType] = [
            Text(text, no_wrap=True, overflow="crop") for text in (head, _join(parts))
        ]
        if self._total and room >= _NARROWEST:
            row.insert(1, ProgressBar(self._total, self._done, width=min(room, _WIDEST)))
        table = Table.grid(padding=(0, 1))
        table.add_row(*row)
        yield table

    def _format_time_left(self) -> str:
        """Returns how long the rest takes at the rate so far, if that is known."""
        seconds = self._clock() - self._start
        made = self._done - self._first
        if self._is_stalled or self._total is None or made <= 0 or seconds <= 0:
            return ""
        return f"{duration(max(0, self._total - self._done) * seconds / made)} left"

    def _rate(self, unit: str = "") -> str:
        seconds = self._clock() - self._start
        made = self._done - self._first
        if self._is_stalled or made <= 0 or seconds <= 0:
            return ""
        rate = made / seconds
        if self._unit == "bytes":
            return f"{rate / 1e6:,.1f} MB/s"
        return f"{rate:.1f}{unit}/s" if 0 < rate < 10 else f"{rate:,.0f}{unit}/s"

    def _format_count(self, number: int) -> str:
        return f"{number / 1e6:,.1f}" if self._unit == "bytes" else f"{number:,}"

    @property
    def _counted_in(self) -> str:
        return "MB" if self._unit == "bytes" else self._unit

    def close(self) -> None:
        """Takes the bar away."""
        self._area.hide("bar")


def _join(parts: list[str]) -> str:
    return ", ".join(filter(None, parts))


def duration(seconds: float) -> str:
    """Writes a time span for people: `4 s`, `2 min 5 s`, `3 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
