"""What is read from the source of a command equals what the command itself declares."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pipeline import packages
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


@pytest.mark.parametrize("flag", ["set", "storage"])
def test_a_flag_of_all_commands_is_declared_in_one_place(flag):
    declared_in = [
        str(path.relative_to(ROOT))
        for package in packages.NAMES
        for path in sorted((ROOT / package).rglob("*.py"))
        if re.search(rf'flags\.DEFINE_\w+\(\s*"{flag}"', path.read_text())
    ]
    assert declared_in == ["pipeline/cli.py"]
