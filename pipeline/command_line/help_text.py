"""What `--help` prints: of `estimator-pipeline`, and of each command."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from pipeline.command_line import declared, table

_WIDTH = 100
_LONG = 30  # characters of choices that are listed in the text instead


def format_overview(commands: Mapping[str, table.Command]) -> str:
    """Returns the list of commands."""
    wide = max(map(len, commands))
    rows = [f"  {name:{wide}}  {command.summary}" for name, command in commands.items()]
    return "\n".join(
        [
            "usage: estimator-pipeline COMMAND [--setting=value] [SETTING=value] ...",
            "",
            "Trains TensorFlow Estimators from raw data to an exported model.",
            "Start with: estimator-pipeline train --config=mnist",
            "",
            *rows,
            "",
            "Each explains itself: estimator-pipeline train --help",
        ]
    )


def format_help(name: str, command: table.Command, found: declared.Declared) -> str:
    """Returns what a command does, and its settings."""
    word = f" {command.argument.upper()}" if command.argument else ""
    program = " -- COMMAND ..." if command.takes_program else ""
    usage = f"usage: estimator-pipeline {name}{word} [--setting=value] ...{program}"
    lines = [usage, "", found.text]
    if found.settings:
        lines += ["", "Settings, also as NAME=value:"]
    wide = max((len(_format_setting(one)) for one in found.settings.values()), default=0)
    for one in found.settings.values():
        lines += textwrap.wrap(
            f"{_format_meaning(one)}",
            _WIDTH,
            initial_indent=f"  {_format_setting(one):{wide}}  ",
            subsequent_indent=" " * (wide + 4),
        )
    return "\n".join(lines)


def _format_setting(setting: declared.Setting) -> str:
    if setting.is_switch:
        return f"--{setting.name}"
    return f"--{setting.name}={_list_choices(setting) or '...'}"


def _list_choices(setting: declared.Setting) -> str:
    """Returns the choices of a setting if they are short enough to stand beside its name."""
    joined = "|".join(setting.choices)
    return joined if len(joined) <= _LONG else ""


def _format_meaning(setting: declared.Setting) -> str:
    parts = [setting.help]
    if setting.choices and not _list_choices(setting):
        parts.append(f"One of {', '.join(setting.choices)}.")
    if setting.required:
        parts.append("Required.")
    elif setting.default and "efault" not in setting.help:
        parts.append(f"Default: {setting.default}.")
    return " ".join(parts)
