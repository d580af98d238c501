"""Functions that processes of `test_processes.py` run."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time


def nothing() -> None:
    pass


def show(text, task) -> None:
    print(text, task.name, os.environ["PIPELINE_X"])
    sys.stdout.flush()
    print("to stderr", file=sys.stderr)


def fail_with(error: BaseException) -> None:
    raise error


def signal_self(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def sleep() -> None:
    time.sleep(60)


def stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def breed(note: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    pathlib.Path(note).write_text(str(child.pid))
    time.sleep(60)
