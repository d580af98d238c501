"""When the command of a process began, by what it has used of the processor."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pipeline.processes import beginning
from tests.pipeline.process_help import ROOT, child_environment

_BUSY = "while time.process_time() < 0.5: pass"
_WHAT = "import pipeline; print(pipeline.COMMAND_BEGAN)"
# Seconds by which the clock of the processor may differ from that of the day.
_CLOCKS = 0.05


def _output(*command):
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=True
    )
    return [float(line) for line in done.stdout.split()]


def test_a_command_began_before_what_it_does_first():
    before = time.time()
    code = f"import time; began = time.time()\n{_BUSY}\n{_WHAT}; print(began)"
    (found, began) = _output(sys.executable, "-c", code)
    # What the process has waited for a disk is not known. All that it did would be 0.5 s.
    assert before - _CLOCKS <= found <= began + 0.25


def test_what_a_shell_has_waited_for_is_no_time_of_the_command_after_it():
    before = time.time()
    (found,) = _output("sh", "-c", 'sleep 3; exec "$0" -c "$1"', sys.executable, _WHAT)
    assert found > before + 1


@pytest.mark.parametrize("text", [None, "", "7", "7 x 1"])
def test_a_system_that_does_not_tell_who_waited(tmp_path, monkeypatch, text):
    path = tmp_path / "schedstat"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(beginning, "_SCHEDULED", str(path))
    before = time.time() - time.process_time()
    assert before - _CLOCKS <= beginning.estimate() <= time.time()


# What `started` is where a command hands it on, and when all was imported.
_OF_TRAIN = """
import time
from pipeline import cli, launch
from pipeline.launchers import base
from pipeline.launchers.local.launcher import LocalLauncher
class Fake(LocalLauncher):
    def run(self, job, *, started):
        print(f"{started} {imported}", flush=True)
        raise SystemExit(0)
base.choose = lambda place: Fake()
imported = time.time()
cli.run(launch.main, ["train", "--config=mnist", "--storage=" + sys.argv[1]])
"""
_OF_RUN = """
import time
from pipeline import cli
from pipeline.commands import run_script
def run(*_, started):
    print(f"{started} {imported}", flush=True)
    raise SystemExit(0)
run_script.launcher.run = run
imported = time.time()
words = ["run", "--storage=" + sys.argv[1]]
cli.run(lambda: run_script.main(["--", "python", "train.py"]), words)
"""


@pytest.mark.parametrize("code", [_OF_TRAIN, _OF_RUN])
def test_a_launch_begins_with_its_command(tmp_path, code):
    started, imported = _output(sys.executable, "-c", f"import sys{code}", str(tmp_path))
    assert started < imported
