"""How a process of a job ends when the same may succeed at another attempt."""

from __future__ import annotations

import os
import resource
import sys

from pipeline import errors

# Set by a place that starts a process again only after a crash, whichever exit code it chooses.
VARIABLE = "PIPELINE_ABORT_TO_RETRY"


def prepare(code: int) -> int:
    """Returns the exit code to end with. Aborts the process instead (SIGABRT, which a shell counts
    as 134) if `code` is that of a retry and the place asks for it."""
    if _aborts(code):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        _abort()
    return code


def exit_at_once(code: int) -> None:
    """Ends the process without any clean-up, and aborts it where `prepare` does. It flushes no
    stream: that would wait for a thread that writes to a pipe which nobody reads."""
    if _aborts(code):
        _abort()
    os._exit(code)


def _aborts(code: int) -> bool:
    return code == errors.RetryableError.exit_code and bool(os.environ.get(VARIABLE))


def _abort() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would be gigabytes
    os.abort()
