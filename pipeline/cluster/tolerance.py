"""Failures of small files that a process survives.

The run folder may be on NFS or gs://, where a read or a write fails now and then. Nothing that
watches or reports may end for one of them.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from pipeline import config, redaction

# Seconds for which small files may fail before a process saves and ends. Less than it takes a
# watchdog that reads no progress to kill it.
_PATIENCE = 60.0
_SHARE = 0.5


def patience(cluster: config.Cluster) -> float:
    """Returns for how many seconds failures are survived under a config."""
    return min(_PATIENCE, _SHARE * cluster.watchdog_seconds)


class Tolerance:
    """Survives the failures of one kind of work, called `what`, and logs the first of each row."""

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._since: float | None = None
        # The newest failure in one line, for people.
        self.failure = ""

    @property
    def seconds(self) -> float:
        """How long the work has failed without a success in between."""
        return 0.0 if self._since is None else self._clock() - self._since

    @contextlib.contextmanager
    def survive(self) -> Iterator[None]:
        """Runs the body; an `Exception` in it is logged once and not raised."""
        try:
            yield
        except Exception as error:
            self.failure = next(iter(str(error).splitlines()), type(error).__name__)
            if self._since is None:
                self._since = self._clock()
                line = f"{self._what} failed, trying again: {self.failure}"
                with contextlib.suppress(OSError):  # of a log on the same disk
                    print(redaction.redact(line), file=sys.stderr, flush=True)
        else:
            self._since = None
