"""Every test is in one of the sets that make knows, and CI runs all of them."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat
import subprocess

import pytest

from tests.support import sets

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _of_make(target: str) -> str:
    """Returns the -m that a target gives to pytest."""
    text = (ROOT / "Makefile").read_text()
    [expression] = re.findall(rf"^{target}:.*\n\t@\$\(PYTEST\) (.+)$", text, re.M)
    return expression.strip('"')


def test_make_runs_the_sets():
    assert _of_make("test") == sets.NORMAL
    assert _of_make("test-slow") == sets.SLOW
    assert _of_make("test-fast") == sets.FAST


def test_every_test_is_in_one_of_two_sets_and_the_fast_ones_in_the_first(request):
    """Of those collected here, before any -m: in a run of all tests, of all."""
    collected = request.config.stash[sets.COLLECTED]
    assert request.node.nodeid in collected
    chosen = [_of_make(target) for target in ("test", "test-slow", "test-fast")]
    for test, markers in collected.items():
        normal, slow, fast = (sets.chosen(expression, markers) for expression in chosen)
        assert normal != slow, test
        assert normal or not fast, test


@pytest.mark.parametrize(
    ("path", "fixtures", "trains"),
    [
        ("e2e/test_modes.py", (), True),
        ("cloud/test_image.py", (), True),
        ("faults/test_verdict.py", ("tmp_path",), True),
        ("trainer/test_task.py", ("small_records", "finished"), True),
        ("pipeline/storage/test_gcs.py", ("cloud",), True),
        ("pipeline/runs/test_run_lock.py", ("tmp_path",), False),
        ("test_layout.py", (), False),
    ],
)
def test_what_trains_is_known_by_its_folder_and_fixtures(path, fixtures, trains):
    assert sets.trains(sets.TESTS / path, fixtures) is trains


def test_the_folders_are_there():
    assert all((sets.TESTS / folder / "__init__.py").is_file() for folder in sets.FOLDERS)


STUB = """#!/bin/sh
echo "$@" >>"$CALLS"
case " $FAIL " in *" $1 "*) echo "1 failed in 1s"; exit 2;; *) echo "$1 passed in 1s";; esac
"""


@pytest.mark.parametrize(
    ("fail", "failed"), [("", False), ("test", True), ("test-slow", True), ("test test-slow", True)]
)
def test_ci_runs_both_whatever_the_first_says(tmp_path, fail, failed):
    made = tmp_path / "bin" / "make"
    made.parent.mkdir()
    made.write_text(STUB)
    made.chmod(0o755)
    (tmp_path / "checkout" / ".ci").mkdir(parents=True)
    script = pathlib.Path(shutil.copy(ROOT / ".ci" / "run", tmp_path / "checkout" / ".ci"))
    assert script.stat().st_mode & stat.S_IXUSR
    calls = tmp_path / "calls"
    path = f"{made.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(script)],
        env={"PATH": path, "CALLS": str(calls), "FAIL": fail},
        capture_output=True,
        text=True,
    )
    assert calls.read_text().split() == ["test", "test-slow"]
    assert (done.returncode != 0) is failed
    closing = "1 failed in 1s" if "test-slow" in fail else "test-slow passed in 1s"
    assert done.stdout.splitlines()[-1] == closing
