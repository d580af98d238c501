"""Functions that processes of `test_processes.py` run."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
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


def listen(note: str) -> None:
    """Takes connections on all addresses, like a TensorFlow server."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        unfinished = pathlib.Path(f"{note}.unfinished")
        unfinished.write_text(str(listener.getsockname()[1]))
        unfinished.rename(note)
        time.sleep(60)


def call(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=10).close()
