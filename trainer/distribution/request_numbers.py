"""Numbers of requests between processes, made so that no two are alike.

TensorFlow draws the number of each request from a generator of its own for each thread, which it
seeds with 32 bits. Each step runs in a new thread, so numbers come from 32 bits and not from 64. A
server remembers 100,000 of them and refuses one that it knows: one request of 43,000, after which
the step fails, or is waited for without end
(docs/tensorflow-pitfalls.md#numbers-of-requests). The one generator for all threads of a process
has no such fault, so requests are made to use that.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

# C++ names of `uint64 tsl::random::ThreadLocalNew64()` and `uint64 tsl::random::New64()`.
_OF_A_THREAD, _OF_ALL = "_ZN3tsl6random16ThreadLocalNew64Ev", "_ZN3tsl6random5New64Ev"
# From <link.h> and <dlfcn.h>: what `dlinfo` is asked for, and tags of a library's dynamic section.
_LINK_MAP = 2
_END, _SIZE, _RELOCATIONS = 0, 2, 23
_WORDS = 3  # of 64 bits, of a relocation; the first is where the address of a function is kept


@functools.cache
def make_unique() -> bool:
    """Makes the requests of this process use the generator for all threads, and returns whether
    they do. They do not on systems other than Linux, where training is for trying out, nor with a
    TensorFlow whose libraries are built otherwise.

    Must not be called before a process is forked that makes requests, too: both would go on with
    the same numbers.
    """
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        return _replace_generator(tf.sysconfig.get_lib())
    except (OSError, AttributeError):  # no such library or function, or no right to write
        return False


def _replace_generator(folder: str) -> bool:
    caller, random = (
        ctypes.CDLL(os.path.join(folder, f"libtensorflow_{name}.so.2"))
        for name in ("cc", "framework")
    )
    former, better = (_get_address(getattr(random, name)) for name in (_OF_A_THREAD, _OF_ALL))
    kept = _find_kept_addresses(caller)
    values = np.array([ctypes.c_uint64.from_address(at).value for at in kept.tolist()], np.uint64)
    for at in kept[values == former].tolist():
        _write(at, better)
    return bool((values == former).any())


def _get_address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def _find_kept_addresses(library: ctypes.CDLL) -> np.ndarray:
    """Returns where a library keeps the addresses of the functions that it calls of others."""
    link_map = ctypes.POINTER(ctypes.c_uint64 * 3)()
    problem = ctypes.CDLL(None).dlinfo(
        ctypes.c_void_p(library._handle), _LINK_MAP, ctypes.byref(link_map)
    )
    if problem:
        return np.zeros(0, np.uint64)
    base, _, section = link_map.contents
    tags: dict[int, int] = {}
    while _END not in tags:
        tag, value = (ctypes.c_uint64 * 2).from_address(section)
        tags[tag] = value
        section += 16
    if _RELOCATIONS not in tags:
        return np.zeros(0, np.uint64)
    words = tags[_SIZE] // 8
    relocations = np.ctypeslib.as_array((ctypes.c_uint64 * words).from_address(tags[_RELOCATIONS]))
    return relocations[::_WORDS] + np.uint64(base)


def _write(at: int, address: int) -> None:
    """Writes an address to where a library keeps one, which may be in a page that is not for
    writing once the library is loaded."""
    protected = not _is_writable(at)
    if protected:
        _protect(at, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.c_uint64.from_address(at).value = address
    if protected:
        _protect(at, mmap.PROT_READ)


def _is_writable(at: int) -> bool:
    with open("/proc/self/maps") as maps:
        for line in maps:
            pages, rights = line.split()[:2]
            first, end = (int(address, 16) for address in pages.split("-"))
            if first <= at < end:
                return "w" in rights
    return False


def _protect(at: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(at & -mmap.PAGESIZE), mmap.PAGESIZE, rights):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
