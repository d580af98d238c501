"""What a calibration run does to its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from pipeline.planning import calibration

_SLEEPS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"


@pytest.fixture
def processes():
    """Processes of two threads, by the task that each stands for."""
    tasks = ("chief-0", "worker-0", "ps-0", "ps-1")
    started = {task: subprocess.Popen([sys.executable, "-c", _SLEEPS]) for task in tasks}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and Linux to keep processes on them",
)
def test_servers_have_their_cores_alone(processes):
    statuses = {task: types.SimpleNamespace(pid=one.pid) for task, one in processes.items()}
    calibration.keep_servers_apart(types.SimpleNamespace(statuses=statuses), 1)
    first, *others = sorted(os.sched_getaffinity(0))
    for task, process in processes.items():
        kept = {first} if task.startswith("ps-") else set(others)
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            assert os.sched_getaffinity(int(thread)) == kept, task
