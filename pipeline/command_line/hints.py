"""Calls commands and settings in messages by the names they were typed by.

Messages are written for make: `make train CONFIG=flights`. `estimator-pipeline` has the same
commands, and settings in lower case after two dashes. A command that a message names gets the
config, data, run, storage and settings of the config that the command at hand was given, so that it
can be typed as it is.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
from collections.abc import Mapping, Sequence

from pipeline.command_line import declared, overrides, table

# How this process was started: by "make", by "command" (estimator-pipeline), or, if it is not set,
# as a module.
VIA = "PIPELINE_VIA"
PROGRAM = "estimator-pipeline"
# Settings that messages name.
# fmt: off
SETTINGS = (
    *(name.upper() for name in table.KEYS),
    "A", "B", "BASELINE", "BUILDER", "CALIBRATE_PS", "CALIBRATE_WORKERS", "CHECKPOINT", "CLUSTER",
    "CONFIG", "CORES", "CUDA", "DATA", "DEVICE", "DISK", "DRY_RUN",
    "ERROR_BUDGET", "EXPORT", "FAIL_IF", "FAULTS", "FIXED", "FOLLOW", "FORCE", "FORMAT", "GROUP",
    "HEADER", "INPUT", "KINDS", "LABEL", "LINK",
    "MACHINE", "METHOD", "METRIC", "NUM_WORKERS", "OUT", "OUTPUT", "PAGE", "PARALLEL",
    "PORT", "PREEMPTIONS", "PS", "RECORDS", "REDUCTION", "REPAIR", "ROLE", "ROWS", "RUN", "RUNGS",
    "SAMPLER",
    "SCHEMA", "SECONDS", "SEED", "SET", "SIGNATURE", "SIZE", "SLICES", "SORT", "SPACE", "SPLIT",
    "STATUS", "STORAGE", "STRATEGY", "TAG", "TAGS", "TARGET", "TRIALS", "WORKERS",
)
# fmt: on
_COMMAND = re.compile(rf"\bmake ({'|'.join(sorted(table.COMMANDS, key=len, reverse=True))})\b")
# The commands in a message, each with the settings that follow it.
_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s'"]*[^\s'",;.:)])+"""
_WHOLE = re.compile(rf"{_COMMAND.pattern}((?: [A-Z_]+=(?:{_VALUE})?)*)(?=( with the same RUN=)?)")
_GIVEN = re.compile(r"\b([A-Z_]+)=")
_SET = re.compile(rf" SET=({_VALUE})")
# What a command that is printed must be given again, by command-line name; its value without that.
_CARRIED = {"data": "", "out": "", "config": "mnist", "run": "", "storage": "output", "set": ""}
# Commands whose run or config chooses what is listed, or has another use.
_CHOOSES = {"preprocess": ("run",), "runs": ("run", "config"), "drift": ("config",)}
# Commands that make a run, of a config.
_MAKE_RUNS = ("train", "tune")
_SWITCH = re.compile(r"\b(DRY_RUN|FOLLOW|FORCE|PAGE|REPAIR|SCHEMA)=1\b")
_SETTING = re.compile(rf"(?<![\w-])({'|'.join(sorted(SETTINGS, key=len, reverse=True))})=")


def is_via_make() -> bool:
    """True if make has started this process, or one that has started it."""
    return os.environ.get(VIA) == "make"


def is_via_command() -> bool:
    """True if `estimator-pipeline` has started this process, or one that has started it."""
    return os.environ.get(VIA) == "command"


def storage_setting(storage_root: str) -> str:
    """Returns what a command that works below `storage_root` is given; a space comes first."""
    return "" if storage_root == "output" else f" STORAGE={shlex.quote(storage_root)}"


def format_run(name: str, storage_root: str) -> str:
    """Returns what a command that works on a run is given; a space comes first."""
    return f" RUN={shlex.quote(name)}{storage_setting(storage_root)}"


def complete(text: str, given: Mapping[str, str]) -> str:
    """Returns a message whose commands can be typed as they are: each has the data, config, run,
    storage and settings that this process was `given`, by command-line name, if it takes them."""
    wanted = {name: value for name, value in given.items() if _CARRIED.get(name, value) != value}
    return _WHOLE.sub(lambda found: _complete(found, wanted), text) if wanted else text


def _complete(found: re.Match[str], wanted: Mapping[str, str]) -> str:
    values = {name: wanted[name] for name in _list_missing(found) if name in wanted}
    if _is_of_run(found[1]) and ("run" in values or " RUN=" in found[2]):
        values.pop("config", None)  # it would only choose among runs
    whole = found[0]
    if (named := _SET.search(found[2])) and "set" in wanted:
        whole = whole.replace(named[0], f" SET={_merge_settings(wanted['set'], named[1])}")
    return whole + "".join(
        f" {name.upper()}={shlex.quote(value)}" for name, value in values.items()
    )


def _merge_settings(given: str, named: str) -> str:
    """Returns a value of SET= with the settings that were given, and those a message names, which
    count where both say something."""
    own = overrides.split(" ".join(shlex.split(named)))
    keys = {setting.partition("=")[0] for setting in own}
    others = [one for one in overrides.split(given) if one.partition("=")[0] not in keys]
    return shlex.quote(" ".join([*others, *own]))


def _list_missing(found: re.Match[str]) -> list[str]:
    """Returns those of `_CARRIED` that a command takes, and is not given."""
    command, settings = found[1], found[2]
    typed = {name.lower() for name in _GIVEN.findall(settings + (found[3] or ""))}
    if "records" in typed:  # instead of those of a config
        return []
    takes = _takes(command) - typed - {*_CHOOSES.get(command, ())}
    return [name for name in _CARRIED if name in takes]


def _is_of_run(command: str) -> bool:
    """True if the config of a command says only of what the newest run is meant."""
    return command not in (*_MAKE_RUNS, *_CHOOSES) and "run" in _takes(command)


@functools.cache
def _takes(command: str) -> frozenset[str]:
    return frozenset(declared.read(table.COMMANDS[command].module).settings)


def format_as_typed(text: str, argv: Sequence[str] = ()) -> str:
    """Returns a message with commands and settings in the form of this process's start; `argv` are
    the flags it was given."""
    text = complete(text, _parse_given(argv))
    if is_via_make():
        given = {word[2:].partition("=")[0] for word in argv if word.startswith("--")}
        for name in given | _list_settings_of_flags():
            text = re.sub(rf"--{name}(?:=| (?=['\"])|(?![\w-]))", f"{name.upper()}=", text)
    elif is_via_command():
        text = text.replace("make setup", f"pip install {PROGRAM}")
        text = _COMMAND.sub(rf"{PROGRAM} \1", text)
        text = _SWITCH.sub(lambda found: f"--{found[1].lower()}", text)
        text = _SET.sub(_split_settings, text)
        text = _SETTING.sub(lambda found: f"--{found[1].lower()}=", text)
    return text


def _list_settings_of_flags() -> set[str]:
    """Returns the flags of this process that are settings of make, given or not."""
    from absl import flags  # `estimator-pipeline --help` starts without it

    return {setting.lower() for setting in SETTINGS} & set(flags.FLAGS)


def _split_settings(found: re.Match[str]) -> str:
    """Returns a flag for each setting of SET=, where there are several."""
    settings = overrides.split(" ".join(shlex.split(found[1])))
    if len(settings) == 1:
        return found[0]
    return "".join(f" --set={shlex.quote(one)}" for one in settings)


def _parse_given(argv: Sequence[str]) -> dict[str, str]:
    """Returns the values of flags that were given, by name."""
    words = list(argv)
    found = dict(word[2:].split("=", 1) for word in words if re.match(r"--\w+=", word))
    pairs = itertools.pairwise(words)
    found |= {a[2:]: b for a, b in pairs if re.fullmatch(r"--\w+", a) and b[:2] != "--"}
    given = [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    if is_via_make():  # which gives all in one
        given = [setting for one in given for setting in overrides.split(one)]
    found["set"] = " ".join(given)
    if overrides.split(found["set"]) != given:  # values with spaces of their own
        found["set"] = ""
    if "run" in found and "config" not in found:  # records, say, are of the config that it keeps
        found["config"] = f"{found.get('storage', 'output')}/runs/{found['run']}/config.yaml"
    return found
