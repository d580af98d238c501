"""What `make chaos` refuses, before anything is written or started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment
from tests.support import commands


def refused(storage, *words):
    """Returns the line that the command ends with."""
    line = commands.read_error_line(
        commands.run("pipeline.commands.chaos", f"--storage={storage}", *words)
    )
    assert not os.path.exists(storage)
    return line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--config must have a value other than None"),
        (("--config=mnist", "--faults=0"), "--faults=0: 0 is not a positive integer"),
        (("--config=mnist", "--seed=-1"), "--seed=-1: -1 is not a non-negative integer"),
        (("--config=mnist", "--seconds=x"), "--seconds=x: must be a whole number"),
        (("--config=mnist", "--kinds=kil"), "--kinds=kil: must be among kill, stop, checkpoint, "),
        (("--config=mnist", "--kinds=kil"), "(did you mean 'kill'?)"),
        (("--config=mnist", "--kinds="), "--kinds: names no kind; must be among kill, stop, "),
        (("--config=mnist", "--workers=2", "--strategy=none"), "cannot run with 2"),
        (
            ("--config=mnist", "--faults=20", "--set=train.steps=100"),
            '--faults=20: training has 100 steps, and so many faults need at least 250. Give SET="'
            'train.steps=250", or FAULTS=8',
        ),
        (
            ("--config=mnist", "--strategy=none", "--kinds=network"),
            "network: a single process needs no network",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, message):
    assert message in refused(tmp_path / "out", *words)


def test_a_bucket_is_refused():
    line = refused("gs://b/x", "--config=mnist")
    assert "faults need a disk; give a local folder" in line


def test_without_the_right_to_shape_links_the_line_explains_it(tmp_path):
    code = (
        "from pipeline import cli\nfrom pipeline.commands import chaos\n"
        "from pipeline.processes import isolation\n"
        "isolation.find_obstacle = lambda: 'the system permits no network namespaces'\n"
        "cli.run(chaos.main)"
    )
    words = ("--config=mnist", "--kinds=network", f"--storage={tmp_path / 'out'}")
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True
    )
    assert done.returncode == 64
    assert done.stderr == (
        "error: --kinds=network: cannot be tried here (network: the system permits no network "
        "namespaces)\n"
    )


def test_make_takes_no_config_for_granted():
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    made = subprocess.run(
        ["make", "--silent", "chaos"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert made.stdout == ""
    assert made.stderr.startswith("error: name the job to break: make chaos CONFIG=")
