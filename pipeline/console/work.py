"""Counts work from deep within it: functions that copy, read or check a lot call `advance`.

A caller that wants to know how far they are runs them within `count_work`; else it does nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

_counter: contextvars.ContextVar[Callable[[int], None] | None] = contextvars.ContextVar(
    "counter", default=None
)


def advance(amount: int) -> None:
    """Says that `amount` more units are done: bytes, batches, rows."""
    counter = _counter.get()
    if counter is not None:
        counter(amount)


@contextlib.contextmanager
def count_work(counter: Callable[[int], None]) -> Iterator[None]:
    """Calls `counter` with each amount that is done in the body, by this thread."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


class CountedFile(io.RawIOBase):
    """A file that counts the bytes that are read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Reads as the file does."""
        content = self._file.read(size)
        advance(len(content))
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves as the file does."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Returns where the file is."""
        return self._file.tell()
