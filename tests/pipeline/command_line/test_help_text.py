"""What `--help` prints."""

from __future__ import annotations

import pytest

from pipeline.command_line import declared, help_text, table


def test_all_commands_are_listed_with_what_they_do():
    text = help_text.format_overview(table.COMMANDS)
    for name, command in table.COMMANDS.items():
        assert f"  {name} " in text and command.summary in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", table.COMMANDS)
def test_a_command_explains_each_setting(name):
    command = table.COMMANDS[name]
    found = declared.read(command.module)
    text = help_text.format_help(name, command, found)
    assert text.startswith(f"usage: estimator-pipeline {name}") and found.text in text
    assert all(f"  --{one}" in text for one in found.settings)
    assert max(map(len, text.splitlines())) <= 100


def test_defaults_choices_and_required_settings_are_named():
    settings = {
        "a": declared.Setting("a", "string", "One.", required=True),
        "b": declared.Setting("b", "enum", "Two.", "x", choices=("x", "y")),
        "c": declared.Setting("c", "bool", "Three."),
        "d": declared.Setting(
            "d", "enum", "Four.", choices=("newest", "by_name", "by_status", "by_step")
        ),
    }
    found = declared.Declared("Does.", settings)
    lines = help_text.format_help("do", table.Command("m", "s", "a"), found).splitlines()
    assert lines[0] == "usage: estimator-pipeline do A [--setting=value] ..."
    assert lines[-4:] == [
        "  --a=...  One. Required.",
        "  --b=x|y  Two. Default: x.",
        "  --c      Three.",
        "  --d=...  Four. One of newest, by_name, by_status, by_step.",
    ]
