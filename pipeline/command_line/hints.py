"""Calls commands and settings in messages by the names they were typed by.

Messages are written for make: `make train CONFIG=flights`. `estimator-pipeline` has the same
commands, and settings in lower case after two dashes. A command that a message names gets the
config, data, run and storage that the command at hand was given, so that it can be typed as it is.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from pipeline.command_line import declared, table

# How this process was started: by "make", by "command" (estimator-pipeline), or, if it is not set,
# as a module.
VIA = "PIPELINE_VIA"
PROGRAM = "estimator-pipeline"
# Settings that messages name.
# fmt: off
SETTINGS = (
    *(name.upper() for name in table.KEYS),
    "A", "B", "BASELINE", "BUILDER", "CALIBRATE_PS", "CALIBRATE_WORKERS", "CHECKPOINT", "CLUSTER",
    "CONFIG", "CORES", "CUDA", "DATA", "DISK", "DRY_RUN",
    "ERROR_BUDGET", "EXPORT", "FAIL_IF", "FAULTS", "FIXED", "FOLLOW", "FORCE", "FORMAT", "GROUP",
    "HEADER", "INPUT", "KINDS", "LABEL", "LINK",
    "MACHINE", "METHOD", "METRIC", "NUM_WORKERS", "OUT", "OUTPUT", "PAGE", "PARALLEL",
    "PORT", "PREEMPTIONS", "PS", "RECORDS", "REDUCTION", "REPAIR", "ROLE", "ROWS", "RUN", "RUNGS",
    "SAMPLER",
    "SCHEMA", "SECONDS", "SEED", "SET", "SIGNATURE", "SLICES", "SORT", "SPACE", "SPLIT", "STATUS",
    "STORAGE", "STRATEGY", "TAG", "TAGS", "TARGET", "TRIALS", "WORKERS",
)
# fmt: on
_COMMAND = re.compile(rf"\bmake ({'|'.join(sorted(table.COMMANDS, key=len, reverse=True))})\b")
_SWITCH = re.compile(r"\b(DRY_RUN|FOLLOW|FORCE|PAGE|REPAIR|SCHEMA)=1\b")
# Settings that name what a command works on; each is left out where another one names it.
_SUBJECTS = {
    "config": ("RECORDS", "A"),
    "data": (),
    "run": ("CONFIG",),
    "storage": ("RECORDS",),
}
_TRAIN = "train"
_CLAUSE_END = re.compile(r"[.;:](?: |$)|\n")
_SETTING = re.compile(rf"(?<![\w-])({'|'.join(sorted(SETTINGS, key=len, reverse=True))})=")


def via_make() -> bool:
    """True if make has started this process, or one that has started it."""
    return os.environ.get(VIA) == "make"


def via_command() -> bool:
    """True if `estimator-pipeline` has started this process, or one that has started it."""
    return os.environ.get(VIA) == "command"


def elsewhere(storage_root: str) -> str:
    """Returns what a command that works below `storage_root` is given; a space comes first."""
    return "" if storage_root == "output" else f" STORAGE={shlex.quote(storage_root)}"


def of_run(name: str, storage_root: str) -> str:
    """Returns what a command that works on a run is given; a space comes first."""
    return f" RUN={shlex.quote(name)}{elsewhere(storage_root)}"


def as_typed(text: str, argv: Sequence[str] = ()) -> str:
    """Returns a message with commands and settings in the form of this process's start; `argv` are
    the flags it was given."""
    text = _completed(text, _subjects(argv))
    if via_make():
        for flag in {word.partition("=")[0] for word in argv if word.startswith("--")}:
            text = re.sub(rf"{flag}(?:=| (?=['\"])|(?![\w-]))", f"{flag[2:].upper()}=", text)
    elif via_command():
        text = text.replace("make setup", f"pip install {PROGRAM}")
        text = _COMMAND.sub(rf"{PROGRAM} \1", text)
        text = _SWITCH.sub(lambda found: f"--{found[1].lower()}", text)
        text = _SETTING.sub(lambda found: f"--{found[1].lower()}=", text)
    return text


def _subjects(argv: Sequence[str]) -> dict[str, str]:
    """Returns what the flags say the command at hand works on, by the name of the setting."""
    found = {}
    for word in argv:
        flag, _, value = word.partition("=")
        name = flag.removeprefix("--")
        if flag.startswith("--") and name in _SUBJECTS and value:
            found[name] = value
    return found


def _completed(text: str, subjects: dict[str, str]) -> str:
    """Returns a message whose commands name what they work on, as `subjects` have it."""
    parts, done = [], 0
    for found in _COMMAND.finditer(text) if subjects else ():
        parts.append(text[done : found.end()])
        done = found.end()
        parts.append(_missing(found[1], _clause(text, done), subjects))
    return "".join(parts) + text[done:]


def _clause(text: str, start: int) -> str:
    """Returns what follows a command up to the next one, or to the end of its clause."""
    ends = [
        found.start() for find in (_COMMAND, _CLAUSE_END) if (found := find.search(text, start))
    ]
    return text[start : min(ends, default=len(text))]


def _missing(command: str, clause: str, subjects: dict[str, str]) -> str:
    """Returns what a command is to be given beside what follows it; a space comes first."""
    taken = declared.read(table.COMMANDS[command].module).settings
    if "RUN=" in clause and command != _TRAIN:  # elsewhere a config stands for its newest run
        subjects = {name: value for name, value in subjects.items() if name != "config"}
    return "".join(
        f" {name.upper()}={shlex.quote(value)}"
        for name, value in subjects.items()
        if name in taken
        and not any(f"{one}=" in clause for one in (name.upper(), *_SUBJECTS[name]))
    )
