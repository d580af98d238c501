"""`estimator-pipeline` as people type it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline.command_line import table
from tests.pipeline.process_help import ROOT, child_environment
from tests.support import commands

HEAVY = ("tensorflow", "apache_beam", "pyarrow", "pydantic", "numpy", "yaml", "absl")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_lists_the_commands(arguments):
    done = commands.run_pipeline(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n  {name} " in done.stdout for name in table.COMMANDS)


@pytest.mark.parametrize("arguments", [("train", "--help"), ("help", "train"), ("train", "-h")])
def test_help_of_a_command_names_its_settings(arguments):
    done = commands.run_pipeline(*arguments)
    assert done.returncode == 0 and "--config=... " in done.stdout


def test_nothing_complains_if_nobody_reads_the_help():
    """As with `| true`, of the list, of the version and of every command."""
    code = (
        "import os, sys; from pipeline import __main__; from pipeline.command_line import table\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "for words in [[], ['--version'], *([name, '--help'] for name in table.COMMANDS)]:\n"
        "    if os.fork() == 0:\n"
        "        sys.argv = ['x', *words]; __main__.main(); break\n"  # and ends as a process does
        "    assert os.wait()[1] == 0, words"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("flag", ["--help", "--helpshort"])
def test_nothing_complains_if_nobody_reads_the_help_of_a_module(flag):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pipeline.commands.logs", flag]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["trian"], ["train", "--help"], ["train", "x"]])
def test_nothing_heavy_is_imported_for_help_and_wrong_names(arguments):
    code = (
        "import sys; from pipeline import __main__\n"
        f"sys.argv = ['x', *{arguments!r}]\n"
        "try: __main__.main()\n"
        "except SystemExit: pass\n"
        f"found = {{*{HEAVY!r}}} & {{*sys.modules}}\n"
        "assert not found, found"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["trian"], "command 'trian' does not exist (did you mean 'train'?); it must be one of "),
        (["train", "--cofnig=x"], "--cofnig does not exist (did you mean '--config'?); it must be"),
        (
            ["train", "--steps=9"],
            "--steps does not exist. Settings of a config are given as --set t",
        ),
        (
            ["train", "STEPS=9"],
            "STEPS= does not exist. Settings of a config are given as --set train.",
        ),
        (
            ["tune", "EPOCH=2"],
            "EPOCH= does not exist. Settings of a config are given as --set train.ep",
        ),
        (
            ["train", "--batch-size"],
            "given as --set train.batch_size=... or --set eval.batch_size=...",
        ),
        (
            ["status", "STEPS=9"],
            "STEPS= does not exist here, only for run; it must be one of RUN=",
        ),
        (["train", "CONFG=x"], "CONFG= does not exist (did you mean 'CONFIG='?); it must be one"),
        (["train"], "--config=... is missing. "),
        (["train", "--config=mnits"], "config 'mnits': not one of "),
        (["train", "--config=mnist", "--set", "train.stesp=1"], "(did you mean 'steps'?)"),
        (
            ["status", "STORAGE=/nonesuch"],
            "Train one with estimator-pipeline train --storage=/nonesuch.",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_code_64(arguments, text):
    done = commands.run_pipeline(*arguments)
    assert done.stdout == "" and text in commands.read_error_line(done)


def test_hints_are_of_make_if_make_has_called_it():
    done = commands.run_pipeline("status", "--storage=/nonesuch", PIPELINE_VIA="make")
    assert done.stderr.endswith("Train one with make train STORAGE=/nonesuch.\n")


def test_a_command_runs_without_settings_if_none_is_required(tmp_path):
    done = commands.run_pipeline("runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no runs in 'output'\n"), done.stderr


def test_modules_of_the_current_folder_can_be_imported_as_after_python_m(tmp_path):
    (tmp_path / "yaml.py").write_text("raise SystemExit('ours was replaced')")
    code = (
        "import sys; sys.path[0] = '/usr/bin'; sys.argv = ['x', 'runs']\n"
        "from pipeline import __main__\n"
        "try: __main__.main()\n"
        "except SystemExit: pass\n"
        "import os; assert sys.path[-1] == os.getcwd()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_version_is_reported():
    done = commands.run_pipeline("--version")
    assert done.returncode == 0 and done.stdout.count(".") == 2
