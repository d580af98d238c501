"""Ctrl-C at a real terminal, and where there is none."""

import contextlib
import os
import pty
import signal
import subprocess
import sys

import pytest

from pipeline.console import interrupts
from tests.pipeline.process_help import ROOT, wait_until

# Works elsewhere until Ctrl-C, as launchers of jobs do.
WORKING = """
import time
from pipeline.console import interrupts
try:
    print("at work", flush=True)
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("cancels" if interrupts.wants_to_cancel("the job") else "leaves")
"""


class Terminal:
    """A process that believes a person is there."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKING],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_take_the_terminal,
        )
        os.close(theirs)

    def shows(self, text: str) -> None:
        """Returns once it shows `text`."""
        wait_until(lambda: text in self._read())

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def _read(self) -> str:
        with contextlib.suppress(OSError):
            self._said += os.read(self._ours, 4096).decode()
        return self._said

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def _take_the_terminal() -> None:
    """Makes the terminal the one whose Ctrl-C reaches this process."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("c\n", "cancels"),
        ("cancel\n", "cancels"),
        ("\n", "leaves"),
        ("l\n", "leaves"),
        ("\x03", "leaves"),
        ("\x04", "leaves"),
    ],
)
def test_a_person_is_asked_and_whatever_is_no_yes_leaves_it(terminal, answer, outcome):
    terminal.shows("at work")
    terminal.type("\x03")
    terminal.shows("Ctrl-C: [l]eave the job running, or [c]ancel it? [l]")
    terminal.type(answer)
    terminal.shows(outcome)
    assert terminal.process.wait(15) == 0


def test_without_a_person_it_is_left(capsys):
    assert interrupts.wants_to_cancel("the job") is False
    assert capsys.readouterr().out == ""


def test_a_second_sigterm_does_not_interrupt_what_the_first_has_begun():
    """`timeout` sends one to make and one to the command."""
    before = {number: signal.getsignal(number) for number in interrupts.NUMBERS}
    try:
        interrupts.install()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert interrupts.get_received() == "SIGTERM"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
