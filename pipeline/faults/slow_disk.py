"""A disk on which each file takes long to open and to read.

By Linux's permission events (fanotify(7)): the kernel asks a process of ours before anybody opens
or reads a file of the mount, and waits for the answer. It needs root. If that process is killed the
kernel lets all go on, so nothing can hang for good.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

# From <linux/fanotify.h> and <linux/fcntl.h>.
_CLASS_CONTENT, _CLOEXEC, _NONBLOCK = 0x4, 0x1, 0x2
_MARK_ADD, _MARK_MOUNT, _AT_FDCWD = 0x1, 0x10, -100
_OPEN_PERM, _ACCESS_PERM, _ALLOW = 0x10000, 0x20000, 1
_EVENT = struct.Struct("IBBHQii")  # length, version, reserved, offset, mask, file, process
_ANSWER = struct.Struct("iI")
_READY = b"ready\n"


def find_obstacle() -> str | None:
    """Returns why there can be no such disk here, or `None`."""
    try:
        os.close(_open_group())
    except OSError as error:
        return "it needs root" if error.errno == errno.EPERM else f"fanotify: {error.strerror}"
    return None


@contextlib.contextmanager
def slow_down(folder: str, delay: float) -> Iterator[None]:
    """Each opening and reading of a file takes `delay` seconds longer meanwhile, on the whole mount
    that `folder` is on: it should be one of its own. Raises `OSError` if that cannot be done."""
    command = [sys.executable, "-m", __name__, folder, str(delay)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    with child.stdin, child.stdout:
        try:
            if child.stdout.readline() != _READY:
                raise OSError(f"{folder!r} cannot be made slow: see the lines above")
            yield
        finally:
            child.kill()
            child.wait()


def _open_group() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    group: int = libc.fanotify_init(_CLASS_CONTENT | _CLOEXEC | _NONBLOCK, os.O_RDONLY)
    if group < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return group


def _serve(folder: str, delay: float) -> None:
    """Answers each question of the kernel after `delay` seconds, until standard input ends."""
    group = _open_group()
    libc = ctypes.CDLL(None, use_errno=True)
    mask = ctypes.c_uint64(_OPEN_PERM | _ACCESS_PERM)
    if libc.fanotify_mark(group, _MARK_ADD | _MARK_MOUNT, mask, _AT_FDCWD, os.fsencode(folder)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
    os.write(sys.stdout.fileno(), _READY)
    waiting: collections.deque[tuple[float, int]] = collections.deque()
    asked = select.poll()
    asked.register(group, select.POLLIN)
    asked.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) * 1000 if waiting else None
        if any(file != group for file, _ in asked.poll(left)):
            return
        waiting += ((time.monotonic() + delay, file) for file in _read_questions(group))
        while waiting and waiting[0][0] <= time.monotonic():
            _, file = waiting.popleft()
            os.write(group, _ANSWER.pack(file, _ALLOW))
            os.close(file)


def _read_questions(group: int) -> Iterator[int]:
    """Yields the open file of each question there is."""
    try:
        content = os.read(group, 64 << 10)
    except BlockingIOError:
        return
    while content:
        length, *_, file, _ = _EVENT.unpack_from(content)
        yield file
        content = content[length:]


if __name__ == "__main__":
    _serve(sys.argv[1], float(sys.argv[2]))
