"""What a script is told of its role, and the name it gives to the run."""

from __future__ import annotations

import os
import re

import pytest

from pipeline import errors
from pipeline.runs import run_search, script_role
from pipeline.runs.run_folder import RunFolder


@pytest.fixture
def role(tmp_path):
    run = RunFolder(str(tmp_path / "train-1"))
    os.mkdir(run.path)
    return script_role.Role(run, 7)


def test_what_a_script_is_told_can_be_read_again(role):
    assert script_role.read_role({"PATH": "/bin", **role.variables()}) == role
    assert script_role.read_role({"PATH": "/bin"}) is None


def test_a_run_is_known_by_the_name_that_the_script_gives_it(role, tmp_path):
    for _ in range(2):  # again after a restart
        script_role.call(role, "mine")
    assert os.path.samefile(tmp_path / "mine", role.run.path)
    # Lists have it once.
    assert [one.name for one in run_search.list_folders(str(tmp_path))] == ["mine"]


def test_its_own_name_needs_no_link(role, tmp_path):
    script_role.call(role, "train-1")
    assert os.listdir(tmp_path) == ["train-1"]


def test_the_name_of_a_run_that_was_removed_is_free(role, tmp_path):
    os.symlink("gone", tmp_path / "mine")
    assert [one.name for one in run_search.list_folders(str(tmp_path))] == ["train-1"]
    script_role.call(role, "mine")
    assert os.path.samefile(tmp_path / "mine", role.run.path)


@pytest.mark.parametrize("name", ["../mine", "", "a/b"])
def test_a_name_cannot_leave_the_folder(role, name):
    with pytest.raises(errors.UsageError, match="run "):
        script_role.call(role, name)


def test_another_run_of_that_name_is_refused(role, tmp_path):
    os.mkdir(tmp_path / "mine")
    text = (
        "run 'mine': there is another one of that name; estimator-pipeline run --run=mine "
        "continues it, or use another name"
    )
    with pytest.raises(errors.UsageError, match=f"^{re.escape(text)}$"):
        script_role.call(role, "mine")
