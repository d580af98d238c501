"""Has exports checked by a process that is forked, not by one that imports TensorFlow again.

`trainer.export.parity_client` starts a Python of its own, whose imports take as long as all else
that a short run does. A process that has just been forked from a fork server has imported
TensorFlow and run no op of it: a fork of that can take the place. It knows no model either, which
is imported later. Runs that are launched as users do start the real one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from typing import Any

from pipeline.processes import parent_death
from trainer.export import parity_client, parity_worker


class Forked:
    """What `ParityServer` needs of a `Popen`, of a process that is forked at once."""

    def __init__(self, folder: str | None) -> None:
        """The process has its working folder there, by which it is found as one of a run."""
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
        self.is_taken = False
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
    os.dup2(asked, 0)
    os.dup2(replied, 1)
    os.close(asked)
    os.close(replied)
    parent_death.set_name("parity")
    sys.stdin = os.fdopen(0, closefd=False)
    for name in parity_client._REMOVED:
        os.environ.pop(name, None)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if folder is not None:
        os.chdir(folder)
    parity_worker.main()
    os._exit(0)


def fork_ahead(folder: str | None = None) -> None:
    """Forks the process that is to answer for the exports of this one, which has run no op yet. If
    it is lost, another one is started as ever."""
    forked = Forked(folder)

    def start(*command: Any, **options: Any) -> Any:
        if forked.is_taken or forked.poll() is not None:
            return subprocess.Popen(*command, **options)
        forked.is_taken = True
        return forked

    parity_client.subprocess = types.SimpleNamespace(Popen=start, PIPE=subprocess.PIPE)
