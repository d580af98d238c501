"""How far a long piece of work is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

import tqdm

# Seconds between two plain lines.
EVERY = 5.0


class Progress:
    """Shows count, rate and time left of one piece of work.

    On a terminal it is a bar that leaves when the work is done; on any other stream it is one
    line every `every` seconds, so that log files stay readable. `total` may be `None` if
    nobody knows it beforehand. Not thread-safe: one thread reports.
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
        self._bar = self._make_bar() if self._stream.isatty() else None

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
        if self._bar is not None:
            self._bar.initial = self._bar.n = done

    def advance(self, count: int, note: str = "") -> None:
        """Adds `count` finished units; `note` is shown behind the figures."""
        self.reach(self._done + count, note)

    def reach(self, done: int, note: str = "") -> None:
        """Says that `done` units are finished in all."""
        self._done = done
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._clock() - self._said >= self._every:
            self._said = self._clock()
            print(self.line(note), file=self._stream, flush=True)

    def line(self, note: str = "") -> str:
        """Returns the state in one line, as the plain log has it."""
        seconds = self._clock() - self._start
        rate = (self._done - self._first) / seconds if seconds > 0 else 0.0
        of_total = "" if self._total is None else f" of {self._total:,}"
        parts = [f"{self._label}: {self._done:,}{of_total} {self._unit}", f"{rate:,.0f}/s"]
        if self._total is not None and rate > 0:
            parts.append(f"{duration(max(0, self._total - self._done) / rate)} left")
        return ", ".join([*parts, note] if note else parts)

    def close(self) -> None:
        """Ends the bar and leaves the terminal's line free."""
        if self._bar is not None:
            self._bar.close()

    def _make_bar(self) -> tqdm.tqdm:
        return tqdm.tqdm(
            desc=self._label,
            total=self._total,
            unit=f" {self._unit}",
            unit_scale=True,
            file=self._stream,
            leave=False,
            dynamic_ncols=True,
        )


def duration(seconds: float) -> str:
    """Writes a time span for people: `4 s`, `2 min 5 s`, `3 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
