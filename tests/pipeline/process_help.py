"""What tests of processes share: asking whether one lives, and waiting for something."""

from __future__ import annotations

import os
import pathlib
import time

from pipeline.faults import processes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


is_alive = processes.is_alive


def wait_until(condition, seconds: float = 60.0):
    """Returns what `condition` returns once that is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {condition}")


def child_environment() -> dict[str, str]:
    """The environment of this process, in which the repository can be imported."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
