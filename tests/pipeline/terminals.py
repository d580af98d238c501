"""Programs run on a terminal of a given size, as a person would see them."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import pty
import re
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
    columns: int

    def frames(self) -> list[list[str]]:
        """Returns the lines of the terminal before each redraw, and at the end."""
        parts = re.split(r"(?=\r\x1b\[2K)", self.shown)
        return [_lines("".join(parts[: n + 1]), self.columns) for n in range(len(parts))]


def _lines(shown: str, columns: int) -> list[str]:
    """Returns the lines of an endless terminal that `shown` was written to."""
    lines, row, column = [""], 0, 0
    for code, count, command, text in re.findall(
        r"(\x1b\[\??(\d*)[\d;]*([A-Za-z]))|(.)", shown, re.S
    ):
        if command == "A":
            row -= int(count or 1)
        elif command == "K":
            assert count == "2", f"an unknown code: {code!r}"
            lines[row] = ""
        elif text == "\r":
            column = 0
        elif text == "\n" or (text and column == columns):
            row, column = row + 1, 0 if text != "\n" else column
            lines += [""] * (row == len(lines))
        elif code:
            assert command in "mhl", f"an unknown code: {code!r}"
        if text and text not in "\r\n":
            lines[row] = f"{lines[row]:{column}}"[:column] + text + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def run(command: Sequence[str], *, columns: int, rows: int = 24, **environment: str) -> Screen:
    """Runs a command on a terminal of that size; 0 columns are one that does not say."""
    master, slave = pty.openpty()
    size = struct.pack("HHHH", rows if columns else 0, columns, 0, 0)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    inherited = {n: v for n, v in child_environment().items() if n not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**inherited, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
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
    return Screen(b"".join(parts).decode(), code, columns or 80)
