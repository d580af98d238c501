"""Temporary folders, and processes that are killed while they use one."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

import pytest

from pipeline import errors
from pipeline.storage import scratch
from tests.pipeline.process_help import child_environment

HOLD = """
import sys
from pipeline.storage import scratch
path = scratch.make("test")
open(f"{path}/large", "wb").write(bytes(1000))
print(path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def _other() -> tuple[subprocess.Popen, pathlib.Path]:
    """Starts a process that holds a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, pathlib.Path(process.stdout.readline().strip())


def test_a_folder_is_private_new_and_removed(temporary):
    with scratch.folder("test") as one, scratch.folder("test") as other:
        assert one != other
        assert stat.S_IMODE(os.stat(one).st_mode) == 0o700
        pathlib.Path(one, "below").mkdir()
        assert str(os.getpid()) not in os.path.basename(one)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("killed", [True, False])
def test_that_of_a_process_that_ended_is_removed_and_that_of_a_live_one_stays(temporary, killed):
    process, path = _other()
    live, kept = _other()
    try:
        if killed:
            process.kill()
        process.communicate("\n")
        assert path.exists() == killed
        with scratch.folder("another purpose"):
            assert path.exists() == killed
        with scratch.folder("test"):
            assert not path.exists()
            assert (kept / "large").exists()
    finally:
        live.communicate("\n")
    assert not kept.exists()


def test_what_others_put_there_is_left_alone(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / "estimator-pipeline-test-link").symlink_to(elsewhere)
    (temporary / "estimator-pipeline-test-file").touch()
    if os.geteuid() == 0:
        (temporary / "estimator-pipeline-test-dir").mkdir()
        os.chown(temporary / "estimator-pipeline-test-dir", 65534, 65534)
    before = sorted(temporary.iterdir())
    with scratch.folder("test"):
        pass
    assert sorted(temporary.iterdir()) == before


def test_a_temporary_folder_that_cannot_be_written_is_named(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "absent"))
    with pytest.raises(errors.UsageError, match=r"cannot make a folder .*absent.*TMPDIR="):
        scratch.make("test")
