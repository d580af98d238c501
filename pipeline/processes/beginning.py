"""When the command of this process began: before Python had imported anything of ours."""

from __future__ import annotations

import time

_SCHEDULED = "/proc/self/schedstat"


def estimate() -> float:
    """Returns when a command that has not waited for anything yet began, in Unix time.

    It is as long ago as the process has run, or waited for a processor. The start of the process
    would tell more than that: a shell replaces itself by the last command of `setup; train`.
    """
    return time.time() - time.process_time() - _read_wait_seconds()


def _read_wait_seconds() -> float:
    """Returns the seconds for which the process could not run as others did; 0 where the system
    does not tell."""
    try:
        with open(_SCHEDULED, encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
