"""The process that answers for exports, forked ahead: taken once, asked, lost, left."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

from pipeline import errors
from pipeline.processes import environment
from tests.pipeline.process_help import is_alive, wait_until
from trainer.export import forked_worker, parity_client


@pytest.fixture
def folder(tmp_path):
    """Where a process works that has been forked ahead."""
    forked_worker.fork_ahead(str(tmp_path))
    yield str(tmp_path)
    left = forked_worker.take()
    if left is not None:
        left.communicate()


def _request(folder):
    named = {name: os.path.join(folder, name) for name in ("export", "rows", "answers")}
    return {**named, "batches": [1], "calls_before": 0, "missing": {}}


def test_its_environment_is_that_of_a_process_without_cluster_and_gpu():
    given = {"TF_CONFIG": "{}", "TF_XLA_FLAGS": "x", "CUDA_VISIBLE_DEVICES": "0", "A": "b"}
    wanted = {"CUDA_VISIBLE_DEVICES": "-1", "A": "b", **environment.QUIET}
    assert forked_worker.choose_environment(given) == wanted


def test_it_is_found_by_its_folder_and_taken_by_the_first_who_asks(folder):
    forked_worker.fork_ahead(folder)  # is there already
    first, second = parity_client.ParityServer(), parity_client.ParityServer()
    with pytest.raises(errors.ModelError, match=r"export '.*': cannot be served \(FileNotF"):
        first.ask(_request(folder))
    assert os.readlink(f"/proc/{first.pid}/cwd") == folder
    assert b"parity_worker.py" not in pathlib.Path(f"/proc/{first.pid}/cmdline").read_bytes()
    assert b"parity_worker.py" in pathlib.Path(f"/proc/{second.pid}/cmdline").read_bytes()
    for server in (first, second):
        server.close()
        wait_until(lambda server=server: not is_alive(server.pid))


@pytest.mark.parametrize("lost", ["before it is taken", "after"])
def test_one_that_is_lost_is_replaced(folder, lost):
    if lost == "after":
        server = parity_client.ParityServer()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(errors.RetryableError, match="checks exports ended with -9"):
            server.ask(_request(folder))
        assert not server.lives
    else:
        pid = forked_worker._waiting[0].pid
        os.kill(pid, signal.SIGKILL)
        # Not until its last thread has ended can it be told that the process has.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    server = parity_client.ParityServer()
    with pytest.raises(errors.ModelError, match="cannot be served"):
        server.ask(_request(folder))
    server.close()


def test_it_ends_when_nobody_can_ask_any_more(tmp_path):
    forked_worker.fork_ahead(str(tmp_path))
    worker = forked_worker.take()
    assert worker is not None and forked_worker.take() is None
    worker.stdin.close()
    wait_until(lambda: not is_alive(worker.pid))
    assert worker.wait() == 0


def test_it_works_where_it_is_if_the_folder_is_not_here():
    forked_worker.fork_ahead("gs://bucket/runs/r")
    worker = forked_worker.take()
    assert worker is not None
    assert worker.poll() is None
    worker.communicate()
    assert worker.wait() == 0
