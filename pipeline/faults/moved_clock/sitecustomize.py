"""Adds what a file says to the time of day of a Python process.

Python imports this at its start if the folder is in PYTHONPATH. Processes forked later share the
file. `time.time` jumps as after a step of NTP, and `time.monotonic` does not; `datetime`, file
times and other languages keep the real time.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable

VARIABLE = "PYTHON_MOVED_CLOCK"
SECONDS = struct.Struct("<d")


def follow(path: str) -> Callable[[], None]:
    """Has this process follow the file from now on; returns what undoes that."""
    with open(path, "rb") as file:
        moved = mmap.mmap(file.fileno(), SECONDS.size, access=mmap.ACCESS_READ)
    real, real_ns = time.time, time.time_ns

    def now() -> float:
        seconds: float = SECONDS.unpack_from(moved)[0]
        return real() + seconds

    def now_ns() -> int:
        return real_ns() + int(SECONDS.unpack_from(moved)[0] * 1e9)

    def undo() -> None:
        time.time, time.time_ns = real, real_ns

    time.time, time.time_ns = now, now_ns
    return undo


if VARIABLE in os.environ:
    follow(os.environ[VARIABLE])
