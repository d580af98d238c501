"""Processes for which /dev/urandom has few different numbers, so that what is drawn from 32 bits of
it is soon drawn again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
import threading
from collections.abc import Iterator

import pytest

from pipeline.processes import isolation

_BITS = 20
_ENTER = """\
import os, subprocess, sys
from pipeline.processes import isolation
isolation.enter_mounts()
subprocess.run(["mount", "--bind", sys.argv[1], "/dev/urandom"], check=True)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@contextlib.contextmanager
def make_python(folder) -> Iterator[str]:
    """Gives the path of a Python, made in a folder, that runs like this one, but for the numbers;
    while it is open."""
    problem = isolation.find_mounts_obstacle()
    if problem:
        pytest.skip(problem)
    (folder / "enter.py").write_text(_ENTER)
    numbers, program = folder / "urandom", folder / "python"
    os.mkfifo(numbers)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/enter.py {numbers} "$@"\n')
    program.chmod(0o755)
    pipe = os.open(numbers, os.O_RDWR)
    # As few ahead as can be: a page of them.
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            os.write(pipe, secrets.randbits(_BITS).to_bytes(4, sys.byteorder))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield str(program)
    finally:
        ended.set()
        os.read(pipe, 4096)  # it may wait for room
        writer.join()
        os.close(pipe)
