"""Reads that fail for reasons that pass: tried again, and never taken for damage."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from pipeline import errors

POLL, PATIENCE = 0.5, 30.0  # seconds between attempts, and until a read is given up
Result = TypeVar("Result")


def read_patiently(path: str, read: Callable[[], Result]) -> Result:
    """Returns what `read` returns; tries again for 30 s after it has raised an `OSError`.

    A file that does not exist is an answer: `FileNotFoundError` is raised at once, for a folder
    too. After other failures (EIO, ESTALE, EACCES, EMFILE, ...) raises `RetryableError`.
    """
    deadline = math.inf
    while True:
        try:
            return read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as error:
            deadline = min(deadline, time.monotonic() + PATIENCE)
            if time.monotonic() >= deadline:
                raise errors.RetryableError(
                    f"{path!r}: cannot be read ({error.strerror or error}). That does not prove "
                    "that it is damaged, so nothing was changed. Run the same command again; if "
                    "the file is lost, remove it"
                ) from None
        time.sleep(POLL)
