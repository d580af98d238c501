"""Makes the next item while the last one is used."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yields `items`, each made by a thread during the use of the one before.

    It pays where both sides let go of the interpreter for long, as Arrow and file writes do. One
    item more than without is alive. Errors of `items` are raised here, in their place.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(next, items, _END)
        while (item := waiting.result()) is not _END:
            waiting = thread.submit(next, items, _END)
            yield item  # type: ignore[misc]
