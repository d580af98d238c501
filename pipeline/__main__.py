"""`estimator-pipeline`: every command of the project by one name, from any folder.

    estimator-pipeline train --config=mnist
    python -m pipeline train --config=mnist      the same

Answers `--help` and wrong names before anything heavy is imported.
"""

from __future__ import annotations

import difflib
import os
import runpy
import sys
from importlib import metadata

from pipeline import errors
from pipeline.command_line import arguments, declared, help_text, hints
from pipeline.command_line.table import COMMANDS
from pipeline.console import terminal

# Keys of a config that an error names, at most, and how like what was typed their last part is.
_SHOWN, _LIKE = 3, 0.85


def main() -> None:
    """Runs the command that was typed, as `python -m` would run its module."""
    os.environ.setdefault(hints.VIA, "command")
    # Models and hooks of the user's own lie in the current folder, where `python -m` finds them.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        name, words = _command(sys.argv[1:])
        sys.stdout.flush()
    except errors.UsageError as found:
        error = _name_key(found) if isinstance(found, arguments.UnknownSetting) else found
        print(error.line, file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        terminal.drop_output(sys.stdout)
        return
    if name is None:
        return
    sys.argv = [f"{hints.PROGRAM} {name}", *words]
    runpy.run_module(COMMANDS[name].module, run_name="__main__", alter_sys=True)


def _command(typed: list[str]) -> tuple[str | None, list[str]]:
    """Returns the command and the flags of its module; no command if help was all it took."""
    if not typed or typed[0] in ("help", "--help", "-h"):
        typed = [*typed[1:], "--help"] if typed[1:] else ["--help"]
    name, *words = typed
    if name == "--help":
        print(help_text.format_overview(COMMANDS))
        return None, []
    if name == "--version":
        print(metadata.version(hints.PROGRAM))
        return None, []
    if name not in COMMANDS:
        raise errors.UsageError(
            f"command {name!r} does not exist{errors.suggest(name, COMMANDS)}; it must be one of "
            f"{', '.join(COMMANDS)}"
        )
    command = COMMANDS[name]
    found = declared.read(command.module)
    # Those after -- are of the user's own command.
    own = words[: words.index("--")] if command.takes_program and "--" in words else words
    if {"--help", "-h", "-help"} & set(own):
        print(help_text.format_help(name, command, found))
        return None, []
    if not command.takes_program:
        return name, arguments.flags(words, found.settings, command.argument)
    own, program = arguments.split_program(words)
    return name, [*arguments.flags(own, found.settings), "--", *program]


def _name_key(error: arguments.UnknownSetting) -> errors.UsageError:
    """Returns the error that names the keys of a config which are called like the setting; the same
    if there are none, or only nearly so and a setting is, too."""
    from pipeline.config import reference  # it takes a moment, and errors alone need it

    name = error.typed.strip("-=").lower().replace("-", "_")
    keys = {key: key.rpartition(".")[2] for key in reference.list_keys()}
    near = difflib.get_close_matches(name, keys.values(), 1, 1.0 if error.has_near else _LIKE)
    same = [key for key, last in keys.items() if last in near]
    if not same:
        return error
    given = " or ".join(f"--set {key}={error.value or '...'}" for key in same[:_SHOWN])
    return errors.UsageError(
        f"{error.typed} does not exist. Settings of a config are given as {given}"
    )


if __name__ == "__main__":
    main()
