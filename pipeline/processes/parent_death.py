"""Asks the kernel to end a process together with its parent, and to show it under a name."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

# From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def arrange() -> Callable[[], None]:
    """Returns a function for the child to call right after the fork.

    It is made in the parent, because a child between fork and exec should not load libraries.
    Only Linux can do this; elsewhere the function does nothing, and children end by noticing that
    a connection closed.
    """
    if sys.platform != "linux":
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before the call, and then no signal comes.
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)

    return die_with_parent


def set_name(name: str) -> None:
    """Shows this process as `name` (its first 15 bytes) in ps and top."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15] + b"\0", 0, 0, 0)
