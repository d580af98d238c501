"""The process that answers for exported models, forked from one that has imported TensorFlow.

To import it again takes longer than all else that a short run does. A process that has just been
forked from a fork server has built nothing, and knows no model: those are imported later. A fork of
that is what a process of its own would be, and shares its memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping

from pipeline.processes import environment, parent_death
from trainer.export import parity_worker

_REMOVED = ("TF_CONFIG", "TF_XLA_FLAGS")
# What has been forked and not been taken.
_waiting: list[ForkedWorker] = []


def choose_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of such a process, of those of the one that asks it."""
    kept = {name: value for name, value in given.items() if name not in _REMOVED}
    return {**kept, "CUDA_VISIBLE_DEVICES": "-1", **environment.QUIET}


def fork_ahead(folder: str | None = None) -> None:
    """Forks the process that is to answer for exports of this one, which must not have run an op
    yet. It works in a `folder`, by which it is found as a process of a run."""
    if not _waiting:
        _waiting.append(ForkedWorker(folder))


def take() -> ForkedWorker | None:
    """Returns the process that was forked, if it lives and has not been taken."""
    found = _waiting.pop() if _waiting else None
    return found if found is not None and found.poll() is None else None


class ForkedWorker:
    """What `subprocess.Popen` is of a program, of a fork of this process."""

    def __init__(self, folder: str | None) -> None:
        asked, ask = os.pipe()
        reply, replied = os.pipe()
        die_with_parent = parent_death.arrange()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent()
                os.close(ask)
                os.close(reply)
                _answer(asked, replied, folder)
            finally:
                os._exit(1)
        os.close(asked)
        os.close(replied)
        self.stdin, self.stdout = os.fdopen(ask, "w"), os.fdopen(reply)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, or `None` while the process lives."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        """Returns the exit code when the process has ended."""
        return self._reap(0)

    def kill(self) -> None:
        """Kills the process."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> None:
        """Has no more requests, and returns when the process has ended."""
        self.stdin.close()
        self.stdout.read()
        self.wait()

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _answer(asked: int, replied: int, folder: str | None) -> None:
    """Is the process, to its end."""
    os.dup2(asked, 0)
    os.dup2(replied, 1)
    os.close(asked)
    os.close(replied)
    parent_death.set_name("parity")
    sys.stdin = os.fdopen(0, closefd=False)
    wanted = choose_environment(os.environ)
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)
    if folder is not None:
        with contextlib.suppress(OSError):  # it may be on gs://
            os.chdir(folder)
    parity_worker.main()
    os._exit(0)
