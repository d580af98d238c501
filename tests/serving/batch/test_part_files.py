"""Folders on the way to a file, and what processes that were killed have left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pipeline import errors
from serving.batch import part_files

KILLED = """
import os, signal, sys
from serving.batch import part_files
with part_files.make_temporary_folder(sys.argv[1]) as folder:
    open(f"{folder}/part", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_gone_at_the_end_however_that_comes(tmp_path):
    target = str(tmp_path / "out.csv")
    with part_files.make_temporary_folder(target) as folder:
        assert os.path.dirname(folder) == str(tmp_path)
        open(f"{folder}/part", "w").close()
    with pytest.raises(KeyboardInterrupt), part_files.make_temporary_folder(target):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_two_at_once_have_each_their_own(tmp_path):
    target = str(tmp_path / "out.csv")
    with (
        part_files.make_temporary_folder(target) as one,
        part_files.make_temporary_folder(target) as other,
    ):
        assert one != other
        assert os.path.isdir(one)
        assert os.path.isdir(other)


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    target = str(tmp_path / "out.csv")
    done = subprocess.run([sys.executable, "-c", KILLED, target])
    assert done.returncode == -signal.SIGKILL
    [left] = os.listdir(tmp_path)
    with part_files.make_temporary_folder(str(tmp_path / "other.csv")):
        assert left in os.listdir(tmp_path)
    with part_files.make_temporary_folder(target) as folder:
        assert os.listdir(tmp_path) == [os.path.basename(folder)]


def test_a_place_that_is_no_folder_is_a_line(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(errors.UsageError, match=r"cannot create folder '[^']*/file': .*exists"),
        part_files.make_temporary_folder(str(tmp_path / "file" / "out.csv")),
    ):
        pass


def test_errors_name_the_file_and_not_the_folder(tmp_path):
    target = str(tmp_path / "out.csv")
    with (
        pytest.raises(errors.RetryableError) as raised,
        part_files.make_temporary_folder(target) as folder,
    ):
        raise errors.RetryableError(f"cannot write '{folder}/answers-3.arrow': disk full. Free it")
    assert str(raised.value) == f"cannot write {target!r}: disk full. Free it"
    with pytest.raises(errors.DataError, match="bad row"), part_files.make_temporary_folder(target):
        raise errors.DataError("bad row")
