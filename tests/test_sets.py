"""Every test is in one of the sets that make knows, and CI runs all of them."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat
import subprocess
import types

import pytest

from tests.support import scheduling, sets

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _of_make(target: str) -> str:
    """Returns the -m that a target gives to pytest."""
    text = (ROOT / "Makefile").read_text()
    [expression] = re.findall(rf"^{target}:.*\n\t@\$\(PYTEST\) (.+)$", text, re.M)
    return expression.strip('"')


def test_make_runs_the_sets():
    assert _of_make("test") == sets.NORMAL
    assert _of_make("test-slow") == sets.SLOW
    assert _of_make("test-matrix") == sets.MATRIX
    assert _of_make("test-fast") == sets.FAST


def test_every_test_is_in_one_of_three_sets_and_the_fast_ones_in_the_first(request):
    """Of those collected here, before any -m: in a run of all tests, of all."""
    collected = request.config.stash[sets.COLLECTED]
    assert request.node.nodeid in collected
    chosen = [_of_make(target) for target in ("test", "test-slow", "test-matrix", "test-fast")]
    for test, markers in collected.items():
        taken = [expression for expression in chosen if sets.is_chosen(expression, markers)]
        *sets_of_three, fast = (expression in taken for expression in chosen)
        assert sum(sets_of_three) == 1, test
        assert sets_of_three[0] or not fast, test
        path = ROOT / test.partition("::")[0]
        assert all(sets.may_be_in(expression, path) for expression in taken), test


@pytest.mark.parametrize(
    ("path", "heavy"),
    [
        ("e2e", True),
        ("e2e/test_modes.py", True),
        ("cloud/test_image.py", True),
        ("faults/test_verdict.py", True),
        ("trainer/checkpoints/test_saving.py", True),
        ("pipeline/test_launch.py", True),
        ("preprocessing/build/test_job.py", True),
        ("pipeline/runs/test_run_folder.py", False),
        ("preprocessing/sources/test_csv.py", False),
        ("test_layout.py", False),
        ("pipeline", False),
        ("trainer/conftest.py", False),
    ],
)
def test_heavy_files_are_known_by_folder_and_imports(path, heavy):
    assert sets.is_heavy(sets.TESTS / path) is heavy


@pytest.mark.parametrize(
    ("expression", "path", "left_out"),
    [
        (sets.FAST, "e2e", True),
        (sets.SLOW, "e2e", False),
        (sets.SLOW, "e2e/test_modes.py", False),
        (sets.SLOW, "preprocessing/sources/test_csv.py", True),
        (sets.MATRIX, "e2e/test_resume_matrix.py", False),
        (sets.MATRIX, "e2e/test_gate.py", True),
        (sets.NORMAL, "preprocessing/sources/test_csv.py", False),
    ],
)
def test_files_without_a_test_of_the_set_are_not_imported(expression, path, left_out):
    assert sets.may_be_in(expression, sets.TESTS / path) is not left_out


class _Item:
    nodeid, path = "a test", sets.TESTS / "pipeline/runs/test_run_folder.py"

    def __init__(self, *fixtures):
        self.fixturenames, self.markers = fixtures, set()

    def add_marker(self, name):
        self.markers.add(name)

    def get_closest_marker(self, name):
        return name if name in self.markers else None


@pytest.mark.parametrize(("fixture", "heavy"), [("small_records", True), ("tmp_path", False)])
def test_a_test_that_uses_a_heavy_fixture_is_heavy(fixture, heavy):
    config = types.SimpleNamespace(stash={})
    sets.mark(config, [_Item(fixture)])
    assert config.stash[sets.COLLECTED] == {"a test": {"heavy"} if heavy else set()}


def test_heavy_fixtures_exist():
    files = [*sets.TESTS.rglob("conftest.py"), sets.TESTS / "cloud" / "fixtures.py"]
    found = re.findall(
        r"^@pytest\.fixture.*\ndef (\w+)\(", "\n".join(f.read_text() for f in files), re.M
    )
    assert set(found) >= sets.FIXTURES


def test_the_folders_are_there():
    assert all((sets.TESTS / folder / "__init__.py").is_file() for folder in sets.FOLDERS)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("e2e/test_modes.py", "modes"),
        ("e2e/test_synchronous_step.py", "modes"),
        ("e2e/test_gate.py", None),
        ("trainer/test_task.py", "finished"),
        ("trainer/evaluation/test_skipped.py", "finished"),
        ("pipeline/runs/test_run_record.py", None),
        ("serving/batch/test_predictions.py", "published"),
    ],
)
def test_files_that_use_a_costly_fixture_share_a_process(path, group):
    assert scheduling.find_group(sets.TESTS / path) == group


def test_costly_fixtures_exist():
    for fixtures, folder in scheduling.COSTLY.values():
        text = (sets.TESTS / folder / "conftest.py").read_text()
        assert all(f"\ndef {name}(" in text for name in fixtures.split("|"))


def test_what_takes_long_comes_first(request):
    """Of those collected here, whatever they were chosen by."""
    ranks = [scheduling.find_rank(item.path) for item in request.session.items]
    assert ranks == sorted(ranks)


def test_long_files_exist_and_have_slow_tests():
    assert len(set(scheduling.LONG)) == len(scheduling.LONG)
    for name in scheduling.LONG:
        path = sets.TESTS / name
        assert path.is_file() and sets.may_be_in(sets.SLOW, path), name
    ranks = [scheduling.find_rank(sets.TESTS / name) for name in scheduling.LONG]
    assert ranks == sorted(ranks)
    others = ("faults/test_verdict.py", "pipeline/runs/test_run_folder.py")
    assert ranks[-1] < scheduling.find_rank(sets.TESTS / others[0])
    assert scheduling.find_rank(sets.TESTS / others[0]) < scheduling.find_rank(
        sets.TESTS / others[1]
    )


STUB = """#!/bin/sh
echo "$@" >>"$CALLS"
case " $FAIL " in *" $1 "*) echo "1 failed in 1s"; exit 2;; *) echo "$1 passed in 1s";; esac
"""


@pytest.mark.parametrize(
    ("fail", "failed"),
    [
        ("", False),
        ("test", True),
        ("test-gcp", True),
        ("test-slow", True),
        ("test test-slow", True),
    ],
)
def test_ci_runs_all_whatever_the_first_says(tmp_path, fail, failed):
    made = tmp_path / "bin" / "make"
    made.parent.mkdir()
    # CI installs Slurm where it can; this test installs nothing.
    for program, text in ((made, STUB), (made.parent / "apt-get", "#!/bin/sh\nexit 1\n")):
        program.write_text(text)
        program.chmod(0o755)
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
    assert calls.read_text().split() == ["test", "test-gcp", "test-slow"]
    assert (done.returncode != 0) is failed
    closing = "1 failed in 1s" if "test-slow" in fail else "test-slow passed in 1s"
    assert done.stdout.splitlines()[-1] == closing
