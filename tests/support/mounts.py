"""Mounts that only one process of a test sees."""

from __future__ import annotations

import os
import traceback

import pytest

from pipeline.processes import isolation


def run_in_process(action):
    """Runs `action` in a process whose mounts end with it; raises what it raised."""
    problem = isolation.find_mounts_obstacle()
    if problem:
        pytest.skip(problem)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            isolation.enter_mounts()
            action()
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(pid, 0)
    assert not said, said
