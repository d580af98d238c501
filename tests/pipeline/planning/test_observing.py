"""What the processes of a run have used, read from outside."""

from __future__ import annotations

import os
import subprocess
import sys

from pipeline.planning import observing
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def _used():
    return sum(os.times()[:2])


def test_processes_that_run_are_seen_and_those_that_are_gone_are_left_out(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    run = RunFolder(str(tmp_path / "r"))
    for task, pid in (("chief-0", os.getpid()), ("worker-0", gone.pid)):
        run_folder.write_status(run, Status(task, pid, host="h", state="training", time=0.0))
    before = _used()
    found = observing.look(run)
    assert found.statuses.keys() == {"chief-0", "worker-0"}
    assert found.cpu.keys() == found.memory.keys() == {"chief-0"}
    # Both of its parts are cut to whole ticks.
    assert before - 2 * _TICK <= found.cpu["chief-0"] <= _used() + 2 * _TICK
    assert found.memory["chief-0"] > 1 << 20
    assert found.network is None, "that of this machine is not the run's"


def test_processor_seconds_grow_with_the_work_of_a_process():
    before = observing.processor_seconds(os.getpid())
    while _used() < before + 5 * _TICK:
        pass
    assert observing.processor_seconds(os.getpid()) > before
