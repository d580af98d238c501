"""The bottom lines of a terminal, redrawn while work is going on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live

from pipeline.console import terminal

# Seconds between two redraws.
_REFRESH = 0.1


class LiveArea:
    """Named parts at the bottom of a terminal, one below the other, with lines logged above them.

    On any other stream, and on a terminal that cannot move its cursor, parts are not shown. No
    thread redraws: a process must not fork while a thread of it holds a lock. Not thread-safe.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self.is_shown = stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        self._parts: dict[str, RenderableType] = {}
        self._live: Live | None = None
        self._redrawn = 0.0

    def show(self, name: str, part: RenderableType) -> None:
        """Shows `part`. A part that is not new is redrawn at most ten times a second."""
        if not self.is_shown:
            return
        now = self._clock()
        if name in self._parts and now - self._redrawn < _REFRESH:
            return
        self._redrawn, self._parts[name] = now, part
        if self._live is None:
            self._live = self._start()
        self._fit(self._live)
        self._live.refresh()

    def _start(self) -> Live:
        console = Console(file=self._stream, force_terminal=True, force_interactive=True)
        live = Live(
            console=console,
            get_renderable=self._draw,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        live.start()
        console.show_cursor()  # a process that is killed could not do so
        return live

    def _draw(self) -> Group:
        return Group(*(self._parts[name] for name in sorted(self._parts)))

    def _fit(self, live: Live) -> None:
        # A line as wide as the terminal would move the cursor to the next one.
        live.console.size = (terminal.width(self._stream) - 1, terminal.height(self._stream))

    def hide(self, name: str) -> None:
        """Takes a part away; the last one leaves the terminal as if there had been none."""
        if self._parts.pop(name, None) is None or self._live is None:
            return
        self._fit(self._live)
        if self._parts:
            self._live.refresh()
        else:
            self._live.stop()
            self._live = None

    def log(self, line: str) -> None:
        """Prints a line, above the parts if there are any."""
        if self._live is None:
            print(line, file=self._stream, flush=True)
        else:
            self._fit(self._live)
            self._live.console.out(line, highlight=False)
