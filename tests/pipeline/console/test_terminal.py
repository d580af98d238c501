"""Output whose reader goes away, and how wide it may be."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from pipeline.console import terminal
from tests.pipeline import terminals
from tests.pipeline.process_help import ROOT, child_environment

PROGRAM = """
import os, sys
from pipeline.console import terminal
terminal.install(piped={piped})
sys.stdin.buffer.read()  # until the reader is gone
print("one", flush=True)
print("two", file=sys.stderr)
os.write({ready}, b"went on")
"""


def talk(output: int, *, piped: bool, close) -> tuple[int, bytes]:
    """Runs a program that writes to `output` after `close`; returns its exit code and whether it
    went on."""
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(piped=piped, ready=write)],
        cwd=ROOT,
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=[write],
    ) as process:
        os.close(write)
        os.close(output)
        close()
        process.stdin.close()
        code = process.wait(timeout=120)
    with os.fdopen(read, "rb") as told:
        return code, told.read()


def test_a_closed_terminal_does_not_end_the_work():
    master, slave = pty.openpty()
    assert talk(slave, piped=False, close=lambda: os.close(master)) == (0, b"went on")


def test_streams_that_are_closed_from_the_start_lead_to_nothing(tmp_path):
    program = """
import sys
from pipeline.console import terminal
terminal.install(piped=True)
print("one", flush=True)
print("two", file=sys.stderr)
with open(sys.argv[1], "w") as file:
    print(file.fileno() > 2, sys.stdin.read() == "", file=file)
"""
    told = tmp_path / "told"
    subprocess.run(
        ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", sys.executable, "-c", program, str(told)],
        cwd=ROOT,
        env=child_environment(),
        timeout=120,
        check=True,
    )
    assert told.read_text() == "True True\n"


@pytest.mark.parametrize(("piped", "told"), [(True, b"went on"), (False, b"")])
def test_a_pipe_without_a_reader_does_so_only_if_it_may(piped, told):
    read, write = os.pipe()
    code, found = talk(write, piped=piped, close=lambda: os.close(read))
    assert (code == 0, found) == (piped, told)


def test_other_failures_are_not_hidden():
    with open("/dev/full", "w", encoding="utf-8") as full:
        stream = terminal.Lasting(full, piped=True)
        stream.write("x")
        with pytest.raises(OSError, match="No space left"):
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


@pytest.mark.parametrize(
    ("columns", "said", "width"),
    [(120, None, 120), (40, None, 40), (12, None, 40), (0, None, 80), (120, "60", 60)],
)
def test_the_width_of_a_terminal(monkeypatch, columns, said, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    if said is not None:
        monkeypatch.setenv("COLUMNS", said)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        assert terminal.width(stream) == width
    os.close(master)


def test_what_is_no_terminal_is_80_wide(monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(tmp_path / "log", "w", encoding="utf-8") as file:
        assert terminal.width(file) == 80


def test_long_lines_are_broken_between_words_on_a_terminal(tmp_path):
    line = "result   step 202, test accuracy 0.9738, test loss 0.0796, eval accuracy 0.9717"
    call = f"print(terminal.wrap({line!r}, sys.stdout, 9))"
    program = f"import sys; from pipeline.console import terminal; {call}"
    screen = terminals.run([sys.executable, "-c", program], columns=60)
    assert screen.shown.splitlines() == [
        "result   step 202, test accuracy 0.9738, test loss 0.0796,",
        "         eval accuracy 0.9717",
    ]
    with open(tmp_path / "log", "w", encoding="utf-8") as file:
        assert terminal.wrap(line, file) == line


def test_paths_below_the_current_folder_are_shown_relative_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert terminal.display_path(f"{tmp_path}/output/runs/r") == "output/runs/r"
    for path in ("/elsewhere/output", "gs://bucket/output", str(tmp_path.parent / "output")):
        assert terminal.display_path(path) == path
