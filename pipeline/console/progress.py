"""How far a long piece of work is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

import tqdm

from pipeline.console import terminal

# Seconds between two plain lines; more of them, the longer the work takes already.
EVERY, _EVERY_AT_MOST = 5.0, 60.0
_SHARE = 0.05
# Seconds between two looks of a bar.
_REFRESH = 0.1
# Columns of a bar, with its two ends and the space before it.
_NARROWEST, _WIDEST = 9, 33


class Progress:
    """Shows count, rate and time left of one piece of work.

    On a terminal it is a bar that leaves when the work is done; on any other stream it is one
    line every `every` seconds, so that log files stay readable. `total` may be `None` if
    it is not known beforehand. Not thread-safe: one thread reports.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "records",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        every: float = EVERY,
    ) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._stream = sys.stdout if stream is None else stream
        self._clock, self._every = clock, every
        self._start = self._said = clock()
        self._done = self._first = 0
        self._bar: Line | None = None
        if self._stream.isatty():
            self._said -= _REFRESH
            # Sizes of its own it would ask the terminal for, which may report zero.
            self._bar = Line(file=self._stream, leave=False, ncols=80, nrows=24)

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

    def begin_at(self, done: int) -> None:
        """Says how much was done before this process began; it does not count for the rate."""
        self._done = self._first = done

    def advance(self, count: int, *notes: str) -> None:
        """Adds `count` finished units; `notes` are shown behind the figures."""
        self.reach(self._done + count, *notes)

    def reach(self, done: int, *notes: str) -> None:
        """Says that `done` units are finished in all. Of `notes` the first are the last to be left
        out where there is little room."""
        self._done = done
        now = self._clock()
        if self._bar is not None:
            if now - self._said >= _REFRESH:
                self._said = now
                self._bar.text = self.fitted(terminal.width(self._stream) - 1, *notes)
                self._bar.refresh()
        elif now - self._said >= self._patience(now):
            self._said = now
            print(self.line(*notes), file=self._stream, flush=True)

    def _patience(self, now: float) -> float:
        return max(self._every, min(_EVERY_AT_MOST, _SHARE * (now - self._start)))

    def line(self, *notes: str) -> str:
        """Returns the state in one line, as the plain log has it."""
        of_total = "" if self._total is None else f" of {self._counted(self._total)}"
        count = f"{self._counted(self._done)}{of_total} {self._counted_in}"
        left = self._left()
        times = [] if left is None else [f"{duration(left)} left"]
        return f"{self._label}: {', '.join(filter(None, [count, self._rate(), *times, *notes]))}"

    def fitted(self, width: int, *notes: str) -> str:
        """Returns the state in at most `width` columns: a bar, and as much as there is room for."""
        of_total = "" if self._total is None else f"/{self._counted(self._total)}"
        count = f"{self._counted(self._done)}{of_total}"
        left = self._left()
        times = "" if left is None else f"{tqdm.tqdm.format_interval(left)} left"
        figures = [f"{count} {self._counted_in}", self._rate(), times, *notes]
        narrower = [
            [count, self._rate(), times, *notes],
            *([count, times, *notes[:n]] for n in reversed(range(len(notes) + 1))),
        ]
        for parts in [figures, *narrower]:
            text = ", ".join(filter(None, parts))
            room = width - len(self._head()) - len(text) - 1
            if room >= _NARROWEST:
                break
        return f"{self._head()}{self._drawn(min(room, _WIDEST))} {text}"[:width]

    def _head(self) -> str:
        if not self._total:
            return f"{self._label}:"
        return f"{self._label} {min(self._done / self._total, 1.0):4.0%}"

    def _drawn(self, width: int) -> str:
        if not self._total or width < _NARROWEST:
            return ""
        ascii_only = self._bar is None or self._bar.ascii is True
        share = min(self._done / self._total, 1.0)
        room = width - 3
        bar = ("#" if ascii_only else "█") * int(share * room)
        return f" |{bar:{room}}|"

    def _left(self) -> float | None:
        """Returns the seconds that the rest takes at the rate so far, if that can be told."""
        seconds = self._clock() - self._start
        made = self._done - self._first
        if self._total is None or made <= 0 or seconds <= 0:
            return None
        return max(0, self._total - self._done) * seconds / made

    def _rate(self) -> str:
        seconds = self._clock() - self._start
        made = max(0, self._done - self._first)
        rate = made / seconds if seconds > 0 else 0.0
        if self._unit == "bytes":
            return f"{rate / 1e6:,.1f} MB/s"
        return f"{rate:.1f}/s" if 0 < rate < 10 else f"{rate:,.0f}/s"

    def _counted(self, number: int) -> str:
        return f"{number / 1e6:,.1f}" if self._unit == "bytes" else f"{number:,}"

    @property
    def _counted_in(self) -> str:
        return "MB" if self._unit == "bytes" else self._unit

    def close(self) -> None:
        """Ends the bar and leaves the terminal's line free."""
        if self._bar is not None:
            self._bar.close()


class Line(tqdm.tqdm):
    """A line of a terminal, `text`, that others can write above."""

    text = ""

    def __str__(self) -> str:
        return self.text


def duration(seconds: float) -> str:
    """Writes a time span for people: `4 s`, `2 min 5 s`, `3 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
