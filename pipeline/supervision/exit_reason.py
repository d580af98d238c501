"""Why a process ended: from its status, its exit code and the end of its log."""

from __future__ import annotations

import os
import re
import signal

from pipeline.processes import memory
from pipeline.processes.fork_client import describe_exit
from pipeline.runs.run_folder import Status

_READ = 16384  # bytes from the end of a log
_UNCAUGHT = 1  # the exit code of Python after an exception, whose text it prints last
# What a process logs while nothing is wrong, as Python and TensorFlow do.
_NO_ERROR = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+:? [IW] ")
# Advice to a person who started the process by hand; a launcher restarts it by itself.
_ADVICE = re.compile(r"\. Run the same command (?:again )?to (?:go on|resume)\.$")


def cause(
    status: Status | None, code: int, lines: list[str], *, kills_before: int | None = None
) -> str:
    """Returns one line: what the process said itself, or what ended it.

    `lines` are the end of its log, `code` its exit code or minus the number of a signal.
    `kills_before` is `memory.count_kills` of when it began.
    """
    if status is not None and status.error:
        return _ADVICE.sub("", status.error)
    if code == -signal.SIGKILL:
        return f"{describe_exit(code)} {_explain_kill(kills_before)}"
    if code < 0:
        return describe_exit(code)
    said = next((line for line in reversed(lines) if line.startswith("error: ")), None)
    if said is not None:
        return said.removeprefix("error: ")
    if code == _UNCAUGHT and lines and not _NO_ERROR.match(lines[-1]):
        return lines[-1]
    return f"ended with {describe_exit(code)}"


def _explain_kill(kills_before: int | None) -> str:
    kills = memory.count_kills()
    if kills is not None and kills_before is not None and kills > kills_before:
        return "(probably by the kernel for lack of memory)"
    return "from outside (by a person, a scheduler, or the kernel for lack of memory)"


def tail(log: str, start: int) -> list[str]:
    """Returns the last lines of a log, none from before the byte `start`."""
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(start, file.tell() - _READ))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()]
