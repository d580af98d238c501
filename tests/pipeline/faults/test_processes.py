"""Processes of a run, found by what they name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from pipeline.faults import processes
from tests.pipeline.process_help import wait_until

SLEEP = "import sys, time; print(1, flush=True); time.sleep(60)"


def started(*words, **options):
    command = [sys.executable, "-c", SLEEP, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    process.stdout.readline()
    return process


def test_they_are_found_by_command_environment_and_folder(tmp_path):
    path = str(tmp_path)
    found = [
        started(path),
        started(env={**os.environ, "RUN_FOLDER": path}),
        started(cwd=path),
    ]
    other = started()
    try:
        assert processes.processes_of(path) == {process.pid for process in found}
        assert processes.parent_of(found[0].pid) == os.getpid()
        assert path.encode() in processes.command_line(found[0].pid)
    finally:
        pids = [process.pid for process in (*found, other)]
        processes.send(pids, signal.SIGKILL)
        wait_until(lambda: not any(map(processes.is_alive, pids)))
        for process in (*found, other):
            process.wait()
    assert processes.find_survivors(path, pids) == {}


def test_what_is_gone_has_no_parent_and_no_command():
    process = started()
    process.kill()
    process.wait()
    assert not processes.is_alive(process.pid)
    assert processes.parent_of(process.pid) == 0
    assert processes.command_line(process.pid) == b""
