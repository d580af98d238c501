"""Programs run on a terminal of a given size, as a person would see them."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence

from tests.pipeline.process_help import ROOT, child_environment


@dataclasses.dataclass(frozen=True)
class Screen:
    """All that was written to a terminal, and the exit code."""

    shown: str
    code: int


def run(command: Sequence[str], *, columns: int, rows: int = 24) -> Screen:
    """Runs a command on a terminal of that size; 0 columns are one that does not say."""
    master, slave = pty.openpty()
    size = struct.pack("HHHH", rows if columns else 0, columns, 0, 0)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    environment = {n: v for n, v in child_environment().items() if n not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as process:
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # every process has closed it
                break
            parts.append(part)
        code = process.wait(timeout=60)
    os.close(master)
    return Screen(b"".join(parts).decode(), code)
