"""A disk that makes everybody wait, until it does no longer."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from pipeline.faults import slow_disk
from pipeline.processes import isolation
from tests.support.mounts import run_in_process

AGES = 3600.0
pytestmark = pytest.mark.skipif(
    slow_disk.find_obstacle() is not None, reason="no slow disk can be made here"
)


def of_its_own(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir()
    isolation.bind(str(folder))
    (folder / "file").write_bytes(b"content")
    return folder


def test_files_wait_until_the_disk_is_no_longer_slow(tmp_path):
    def action():
        folder = of_its_own(tmp_path / "run")
        with slow_disk.slow_down(str(folder), AGES):
            reader = subprocess.Popen(["cat", folder / "file"], stdout=subprocess.PIPE)
            writer = subprocess.Popen(["cp", "/proc/version", folder / "copy"])
            with pytest.raises(subprocess.TimeoutExpired):
                reader.wait(0.5)
            assert writer.poll() is None
        assert reader.communicate(timeout=60)[0] == b"content"
        assert writer.wait(60) == 0

    run_in_process(action)


def test_who_waits_can_be_killed(tmp_path):
    def action():
        folder = of_its_own(tmp_path / "run")
        with slow_disk.slow_down(str(folder), AGES):
            reader = subprocess.Popen(["cat", folder / "file"])
            with pytest.raises(subprocess.TimeoutExpired):
                reader.wait(0.2)
            reader.kill()
            assert reader.wait(60) == -9

    run_in_process(action)


def test_other_mounts_are_as_fast_as_before(tmp_path):
    (tmp_path / "beside").write_text("other")

    def action():
        folder = of_its_own(tmp_path / "run")
        with slow_disk.slow_down(str(folder), AGES):
            assert (tmp_path / "beside").read_text() == "other"

    run_in_process(action)


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    absent = slow_disk.slow_down(str(tmp_path / "none"), AGES)
    with pytest.raises(OSError, match="cannot be made slow"), absent:
        pass
