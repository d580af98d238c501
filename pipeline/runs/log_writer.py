"""What a process says, kept in its run's folder too, where no launcher of ours does that.

Platforms keep what processes put out in logs of their own. With this `make logs` has what Python
writes; what libraries write when they break off a process is in the platform's logs alone. There is
no pipe in between: what ends a container would end its reader before it had passed on the last
words.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

from pipeline import errors, storage
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import mirror

# Copies the one log that is kept for a run on gs://.
_copies: mirror.Copies | None = None


def keep(run: RunFolder, task: str) -> None:
    """Keeps what this process says from now on until its very end."""
    stack = contextlib.ExitStack()
    stack.enter_context(tee_output(run, task))
    atexit.register(stack.close)


def copy_now() -> None:
    """Brings the log on gs:// up to date, as far as possible; for a process that ends abruptly."""
    if _copies is not None:
        with contextlib.suppress(errors.PipelineError):
            _copies.copy()


@contextlib.contextmanager
def tee_output(run: RunFolder, task: str) -> Iterator[None]:
    """Lets standard output and error of this process go to the log of `task` as well.

    On a disk it is written there, over restarts; for gs:// on this machine, and copied.
    """
    path = run.log_path(task)
    with contextlib.ExitStack() as stack:
        if storage.is_remote(path):
            path = stack.enter_context(_mirror_locally(path))
        else:
            storage.makedirs(storage.parent(path))
        # Without a buffer, whose rest a full disk would refuse when the log is closed.
        file = stack.enter_context(open(path, "ab", buffering=0))
        stack.enter_context(contextlib.redirect_stdout(_Both(sys.stdout, file)))
        stack.enter_context(contextlib.redirect_stderr(_Both(sys.stderr, file)))
        yield


@contextlib.contextmanager
def _mirror_locally(path: str) -> Iterator[str]:
    """Yields a local file that begins with what is at `path`, and goes there now and then."""
    global _copies
    with tempfile.TemporaryDirectory(prefix="estimator-pipeline-log-") as folder:
        local = os.path.join(folder, path.rpartition("/")[2])
        if storage.exists(path):
            storage.copy(path, local)
        _copies = mirror.Copies()
        _copies.add(folder, storage.parent(path))
        try:
            # A log that cannot be copied is no reason to fail.
            with contextlib.suppress(errors.PipelineError), mirror.keep_up(_copies):
                yield local
        finally:
            _copies = None


class _Both:
    """A stream whose text goes to a file as well; a full disk does not matter to it."""

    def __init__(self, stream: TextIO, file: BinaryIO) -> None:
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text.encode("utf-8", "replace"))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
