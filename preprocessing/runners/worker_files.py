"""Progress by the files that workers leave.

Files are what workers in this process, in others and on other hosts have in common.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from pipeline import storage

# Seconds between two looks at how far the workers are.
_POLL, _REMOTE_POLL = 0.2, 2.0


@contextlib.contextmanager
def watch_files(folder: str, show: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Runs `show` in a thread while the body runs.

    Its argument is a function that waits until it is time for the next look at the files in
    `folder`, and returns False once the body has ended.
    """
    poll = _REMOTE_POLL if storage.is_remote(folder) else _POLL
    ended = threading.Event()
    thread = threading.Thread(target=show, args=(lambda: not ended.wait(poll),), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
