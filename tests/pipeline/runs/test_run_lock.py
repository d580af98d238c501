"""One launcher a run, and how others know of it."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest

from pipeline import errors
from pipeline.runs import run_lock
from pipeline.runs.run_folder import RunFolder

NOBODY = 999999999  # above any process id


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r1"))


def leave(run):
    """Returns the lock as a process of a dead launcher still holds it."""
    with run_lock.hold(run) as descriptor:
        kept = os.dup(descriptor)
        os.pwrite(kept, f"{NOBODY}\n".encode(), 0)
    return kept


def test_a_run_is_locked_by_one_launcher(run):
    text = rf"run 'r1': another process \(pid {os.getpid()}\) is working"
    with run_lock.hold(run), pytest.raises(errors.UsageError, match=text), run_lock.hold(run):
        pass
    with run_lock.hold(run):
        pass


def test_processes_of_a_dead_launcher_are_waited_for(run):
    left = leave(run)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            os.close(left)

    with run_lock.hold(run, sleep=sleep):
        assert len(waits) == 3


def test_processes_of_a_dead_launcher_are_not_waited_for_without_end(run):
    left = leave(run)
    with (
        pytest.raises(errors.UsageError, match=rf"another process \(pid {NOBODY}\)"),
        run_lock.hold(run, sleep=lambda _: None, patience=1.0),
    ):
        pass
    os.close(left)


def test_without_locks_no_process_is_kept_out(run, monkeypatch):
    """Some network file systems have none."""

    def flock(descriptor, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_lock.fcntl, "flock", flock)
    with run_lock.hold(run), run_lock.hold(run):
        assert not run_lock.has_launcher(run)


def test_others_see_whether_there_is_a_launcher(run):
    assert not run_lock.has_launcher(run)
    with run_lock.hold(run):
        assert run_lock.has_launcher(run)
    assert not run_lock.has_launcher(run)
    # Looking leaves no lock behind.
    with run_lock.hold(run):
        pass


def test_processes_that_a_dead_launcher_left_are_no_launcher(run):
    left = leave(run)
    assert not run_lock.has_launcher(run)
    os.close(left)


def test_runs_on_cloud_storage_are_locked_on_this_machine_too(cloud, tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    run = RunFolder(cloud.path("runs/r1"))
    with (
        run_lock.hold(run),
        pytest.raises(errors.UsageError, match="another process"),
        run_lock.hold(run),
    ):
        pass
    assert list(tmp_path.rglob("*.lock"))


def test_a_process_that_has_ended_is_not_alive_before_it_is_reaped():
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)
        assert not run_lock.is_alive(process.pid)


@pytest.mark.parametrize(
    ("pid", "alive"),
    [(os.getpid(), True), (NOBODY, False), (None, False)],
    ids=["ours", "ended", "none"],
)
def test_who_is_alive(pid, alive):
    assert run_lock.is_alive(pid) is alive
