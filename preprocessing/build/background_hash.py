"""Hashes the raw files in the background, while workers read them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator

from pipeline.records import manifest
from preprocessing.build import fingerprint
from preprocessing.sources.base import RawFile


class Hashes:
    """Raw files that a thread hashes in the background, where it costs nothing on a second core."""

    def __init__(self, files: list[RawFile], thread: concurrent.futures.ThreadPoolExecutor) -> None:
        self._thread, self._stop = thread, threading.Event()
        self._found = thread.submit(fingerprint.hash_sources, files, self._stop)

    def result(self) -> tuple[manifest.SourceFile, ...]:
        """Waits for the end of the hashing."""
        return self._found.result()

    def stop(self) -> None:
        """Ends the hashing soon, without a result."""
        self._stop.set()

    @contextlib.contextmanager
    def note_when_known(
        self, note: Callable[[tuple[manifest.SourceFile, ...]], None]
    ) -> Iterator[None]:
        """Calls `note` with the result once it is known, unless the body ends before."""

        def wait_and_note() -> None:
            if self._found.exception() is None:
                note(self.result())

        # It waits for the hashing, which has the only thread.
        pending = self._thread.submit(wait_and_note)
        try:
            yield
        finally:
            if not pending.cancel():
                concurrent.futures.wait([pending])


@contextlib.contextmanager
def hash_in_background(files: list[RawFile]) -> Iterator[Hashes]:
    """Hashes the raw files until the body ends."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        hashes = Hashes(files, thread)
        try:
            yield hashes
        finally:
            hashes.stop()
