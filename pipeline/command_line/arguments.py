"""What was typed after a command, as the flags of its module.

Settings are flags, `--config=flights` or `--config flights`, with `-` or `_` in their names; or
pairs as make takes them, `CONFIG=flights FORCE=1 SET="train.steps=5 train.batch_size=64"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from pipeline import errors, places
from pipeline.command_line import declared, overrides, table
from pipeline.command_line.declared import Setting

_PAIR = re.compile(r"([A-Z][A-Z_]*)=(.*)", re.DOTALL)
_KEY = re.compile(r"[a-z_]+(\.\w+)+=")
_OFF = ("0", "no", "off", "false")
_BUCKET = f"--set={table.KEYS['bucket']}="


class UnknownSetting(errors.UsageError):
    """A setting that a command does not have, which takes settings of a config; `has_near` tells if
    another command has it, or this one a setting that is called nearly so."""

    def __init__(self, text: str, typed: str, value: str, *, has_near: bool) -> None:
        super().__init__(text)
        self.typed, self.value, self.has_near = typed, value, has_near

    def __reduce__(self) -> tuple[type[errors.UsageError], tuple[str]]:
        return errors.UsageError, (str(self),)


def flags(words: Sequence[str], settings: Mapping[str, Setting], argument: str = "") -> list[str]:
    """Returns `words` as `--name=value` for each setting, and `--name` or `--noname` for switches.

    `argument` is the setting that a bare word stands for. Raises `UsageError` for a setting that
    does not exist, or is missing although required.
    """
    rest, made = list(words), list[str]()
    while rest:
        word = rest.pop(0)
        pair = _PAIR.fullmatch(word)
        if word.startswith("--") and len(word) > 2:
            made.append(_parse_flag(word[2:], rest, settings))
        elif pair:
            made += _parse_pair(pair[1], pair[2], settings)
        elif argument and not _has(made, argument):
            made.append(f"--{argument}={word}")
        else:
            raise errors.UsageError(f"unexpected argument {word!r}. {_suggest(word, settings)}")
    _check_required(made, settings, argument)
    return _add_storage(_name_keys(made, settings), settings)


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns settings and the command line that follows them after `--`. Raises `UsageError`
    without one."""
    at = words.index("--") if "--" in words else len(words)
    if not words[at + 1 :]:
        raise errors.UsageError(
            "the command to run is missing; it follows --, as in: estimator-pipeline run "
            "--workers=2 --ps=1 -- python train.py"
        )
    return [*words[:at]], [*words[at + 1 :]]


def _has(made: Sequence[str], name: str) -> bool:
    return any(flag.partition("=")[0] == f"--{name}" for flag in made)


def _parse_flag(word: str, rest: list[str], settings: Mapping[str, Setting]) -> str:
    typed, equals, value = word.partition("=")
    name = typed.replace("-", "_")
    opposite = settings.get(name.removeprefix("no")) if name not in settings else None
    if opposite is not None and opposite.is_switch:
        return f"--{name}"
    if name in settings and settings[name].is_switch:
        return f"--{name}{equals}{value}"
    if name not in settings and not _is_key(name, settings):
        raise _build_unknown_error(f"--{typed}", value, [f"--{one}" for one in settings])
    if not equals and not rest:
        raise errors.UsageError(f"--{typed}: needs a value: --{typed}=...")
    return f"--{name}={value if equals else rest.pop(0)}"


def _parse_pair(typed: str, value: str, settings: Mapping[str, Setting]) -> Iterator[str]:
    """Yields the flags of a pair. An empty value counts as not given, as in make."""
    name = typed.lower()
    if name not in settings and not _is_key(name, settings):
        raise _build_unknown_error(f"{typed}=", value, [f"{one.upper()}=" for one in settings])
    if not value:
        return
    if name in settings and settings[name].is_switch:
        yield f"--no{name}" if value.lower() in _OFF else f"--{name}"
    elif name == "set":
        yield from (f"--set={one}" for one in overrides.parse(value))
    else:
        yield f"--{name}={value}"


def _is_key(name: str, settings: Mapping[str, Setting]) -> bool:
    """True for what stands for a key of the config."""
    return name in table.KEYS and {"set", "cluster"} <= set(settings)


def _build_unknown_error(typed: str, value: str, known: Sequence[str]) -> errors.UsageError:
    allowed = f"it must be one of {', '.join(known)}" if known else "there are no settings here"
    name = typed.strip("-=").lower().replace("-", "_")
    others = _list_takers(name)
    where = f" here, only for {', '.join(others)}" if others else errors.suggest(typed, known)
    text = f"{typed} does not exist{where}; {allowed}"
    if not {"--set", "SET="} & set(known):
        return errors.UsageError(text)
    return UnknownSetting(text, typed, value, has_near=bool(where))


def _list_takers(name: str) -> list[str]:
    """Returns the commands that have a setting."""
    commands = table.COMMANDS.items()
    return [one for one, command in commands if name in declared.read(command.module).settings]


def _suggest(word: str, settings: Mapping[str, Setting]) -> str:
    """Says what a bare word should have been."""
    if _KEY.match(word) and "set" in settings:
        return f"Settings of a config are given as --set {word}"
    if word.partition("=")[0] in settings and "=" in word:
        return f"Write --{word}"
    return "Settings are given as --name=value or NAME=value; see --help"


def _check_required(made: list[str], settings: Mapping[str, Setting], argument: str) -> None:
    for setting in settings.values():
        if setting.required and not _has(made, setting.name):
            how = setting.name.upper() if setting.name == argument else f"--{setting.name}=..."
            raise errors.UsageError(f"{how} is missing. {setting.help}")


def _name_keys(made: list[str], settings: Mapping[str, Setting]) -> list[str]:
    """Puts keys of the config for what stands for them in the place where the command runs."""
    clusters = [flag.partition("=")[2] for flag in made if flag.startswith("--cluster=")]
    keys = places.variables(*clusters[-1:])
    found = []
    for flag in made:
        name, _, value = flag[2:].partition("=")
        is_key = name not in settings and name in keys
        # As text: a bucket may be called 2024.
        text = json.dumps(value, ensure_ascii=False)
        found.append(f"--set={keys[name]}={text}" if is_key else flag)
    return found


def _add_storage(made: list[str], settings: Mapping[str, Setting]) -> list[str]:
    """Puts what a job elsewhere writes into its bucket, if one is named, and no other place is."""
    bucket = next((flag.removeprefix(_BUCKET) for flag in made if flag.startswith(_BUCKET)), None)
    elsewhere = _has(made, "cluster") and "--cluster=local" not in made
    if bucket is None or not elsewhere or _has(made, "storage") or "storage" not in settings:
        return made
    return [*made, f"--storage=gs://{json.loads(bucket)}/estimator-pipeline"]
