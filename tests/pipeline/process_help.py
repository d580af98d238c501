"""What tests of processes share: asking whether one lives, and waiting for something."""

from __future__ import annotations

import os
import pathlib
import time

from pipeline.faults import processes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


is_alive = processes.is_alive


def wait_until(condition, seconds: float = 60.0, *, poll: float = 0.02, describe=None):
    """Returns what `condition` returns once that is true. Raises `TimeoutError` after `seconds`,
    with what `describe` says."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(poll)
    said = describe() if describe else condition
    raise TimeoutError(f"not within {seconds:g} s: {said}")


def child_environment() -> dict[str, str]:
    """The environment of this process, in which the repository can be imported."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
