"""What is read from the source of a command equals what the command itself declares."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys

import pytest

from pipeline import packages, places
from pipeline.command_line import declared, table
from tests.pipeline.process_help import ROOT, child_environment

# What absl knows of the flags of a module once it is imported.
SHOW = """
import importlib, json, sys
from absl import flags
found = {}
for name in json.loads(sys.argv[1]):
    module = importlib.import_module(name)
    for flag in flags.FLAGS.get_key_flags_for_module(module):
        found.setdefault(name, {})[flag.name] = [flag.help, bool(flag.boolean)]
    flags.FLAGS.unparse_flags()
    for one in found.get(name, {}):
        delattr(flags.FLAGS, one)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def imported():
    modules = json.dumps([one.module for one in table.COMMANDS.values()])
    done = subprocess.run(
        [sys.executable, "-c", SHOW, modules],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", table.COMMANDS)
def test_the_source_says_what_the_module_declares(name, imported):
    module = table.COMMANDS[name].module
    found = declared.read(module)
    said = {one.name: [one.help, one.is_switch] for one in found.settings.values()}
    of_absl = imported.get(module, {})
    assert set(said) == set(of_absl)
    for flag, (text, switch) in of_absl.items():
        # absl adds the values of an enum, and that a flag may be repeated.
        assert said[flag][0] in text and switch == said[flag][1]
    assert found.text and f"estimator-pipeline {name}" in found.text


def test_required_choices_and_defaults_are_read(tmp_path, monkeypatch):
    (tmp_path / "example_command.py").write_text(
        '"""Does things."""\n'
        "KINDS = ('a', 'b')\n"
        "flags.DEFINE_string('one', None, 'First' ' setting.', required=True)\n"
        "flags.DEFINE_enum('two', 'a', KINDS, 'Second.')\n"
        "flags.DEFINE_enum('three', None, elsewhere.KINDS, 'Third.')\n"
        "flags.DEFINE_bool('four', False, 'Fourth.')\n"
        "USUAL = 5\n"
        "flags.DEFINE_integer('five', None, f'Fifth. Default: {USUAL}.')\n"
        "flags.DEFINE_list('six', ['1', '2'], 'Sixth.')\n"
        "STORAGE = cli.storage_flag()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = declared.read("example_command")
    assert found.text == "Does things."
    assert list(found.settings.values()) == [
        declared.Setting("one", "string", "First setting.", required=True),
        declared.Setting("two", "enum", "Second.", "a", choices=("a", "b")),
        declared.Setting("three", "enum", "Third."),
        declared.Setting("four", "bool", "Fourth."),
        declared.Setting("five", "integer", "Fifth. Default: 5."),
        declared.Setting("six", "list", "Sixth.", "1,2"),
        declared.Setting(
            "storage", "string", "Root of everything written, local or gs://.", "output"
        ),
    ]


# Flags that are declared in several modules, and why no text is true for all of them.
DIFFERENT = {
    "a": "a run, or a record set",
    "b": "several runs, or one record set",
    "cluster": "a script runs here alone, and learns of any other place what to do instead",
    "config": "what to read, or whose runs, whose builds, whose limits",
    "force": "makes records again, or removes those that runs name",
    "port": "where to listen, or on Slurm which ports to check",
    "ps": "a number, or for plan several",
    "run": "the run to look at, to name, to tag, or that will need the records",
    "seconds": "how long a calibration is measured, or training may take",
    "seed": "decides the values of trials, or the faults",
    "split": "any split, or one of two",
    "strategy": "one of a job, or for plan several",
    "workers": "a number, for plan several, and for scale what is to be from now on",
}


def test_a_flag_of_several_commands_is_declared_once():
    """In `pipeline.cli`, with one text, unless it means another thing in each."""
    modules = collections.defaultdict(set)
    for package in packages.NAMES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', path.read_text()):
                modules[name].add(str(path.relative_to(ROOT)))
    several = {name: paths for name, paths in modules.items() if len(paths) > 1}
    new = [f"--{name} of {', '.join(sorted(several[name]))}" for name in several.keys() - DIFFERENT]
    assert not new, f"{new}: declare it in pipeline/cli.py, or say in DIFFERENT why not"
    assert not DIFFERENT.keys() - several.keys()


def test_arguments_of_a_shared_flag_are_read(tmp_path, monkeypatch):
    """By position, by name, and through a function that calls another."""
    (tmp_path / "shared_flags.py").write_text(
        "PORT = cli.port_flag(80)\n"
        "CONFIG = cli.config_flag(default='mnist')\n"
        "PLACE = cli.place_flag(places.list_preprocessing())\n"
        "STRATEGY, WORKERS, PS = cli.cluster_flags()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = declared.read("shared_flags").settings
    assert found["port"].default == "80"
    assert found["config"].default == "mnist" and not found["config"].required
    assert list(found["cluster"].choices) == places.list_preprocessing()
    assert found["workers"].help == "Workers besides the chief."
