"""The command, as a process of its own: table, page and exit code."""

from __future__ import annotations

import re
import subprocess

import pytest

from pipeline.config import config_file
from tests.support import commands
from tests.support.drifted import make_records


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    make_records(folder, "before")
    make_records(folder, "after", shift=15.0)
    return folder


def _run(root, *flags: str) -> subprocess.CompletedProcess[str]:
    return commands.run("preprocessing.compare_records", f"--storage={root}", *flags)


def test_drift_ends_with_65_and_names_it(root):
    done = _run(root, "--a=before", "--b=after")
    assert done.returncode == 65
    assert done.stderr.startswith("error: 1 of 4 columns have drifted: size. See ")
    (page,) = (root / "drift").glob("before-after.html")
    assert page.read_text().startswith("<!doctype html>") and str(page) in done.stderr
    assert re.search(r"^size +KS 0\.\d+ ± 0\.01\d  ", done.stdout, re.M)


def test_no_drift_ends_with_0(root):
    done = _run(root, "--a=before:train", "--b=before:eval")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no column has drifted; see " in done.stdout


def test_folders_with_long_names(root, tmp_path):
    """Of both the page has its own, and no file's may be so long."""
    folder = tmp_path / ("x" * 150)
    folder.symlink_to(root / "records" / "before")
    done = _run(root, f"--a={folder}:train", f"--b={folder}:eval")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((root / "drift").glob("*x-eval.html"))


def test_splits_of_a_shipped_config_have_its_limits(tmp_path):
    """Its days are held out, so the columns that say the day are not compared."""
    columns = config_file.load("flights").drift.ignore
    assert columns == ("month", "day", "time_hour")
    done = _run(tmp_path, "--a=flights:train", "--b=flights:eval", "--set=drift.numbers=9")
    assert done.returncode == 64 and "flights': drift.numbers: " in done.stderr  # it was read
    done = _run(tmp_path, "--a=flights:train", "--b=other:eval", "--set=drift.numbers=9")
    assert done.returncode == 64
    assert "--set=drift.numbers=9: changes a config, and these records name none" in done.stderr


@pytest.mark.parametrize(("name", "made_by"), [("flights", "flights"), ("own", "config.yaml")])
def test_records_there_are_not_are_made_by_a_config_of_theirs(tmp_path, name, made_by):
    done = _run(tmp_path, f"--a={name}:train", f"--b={name}:eval")
    assert done.returncode == 65
    hint = f"Make them: make preprocess CONFIG={made_by} STORAGE={tmp_path}"
    assert f"there are no records '{name}'" in done.stderr and hint in done.stderr


def test_limits_of_a_config(root):
    config = config_file.SHIPPED / "flights.yaml"
    flags = ("--a=before", "--b=after", f"--config={config}", "--set=drift.ignore=[]")
    assert _run(root, *flags, "--set=drift.numbers=0.9").returncode == 0
    done = _run(root, *flags, "--set=drift.numbers=9")
    assert done.returncode == 64 and "drift.numbers" in done.stderr
