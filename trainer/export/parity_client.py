"""The process that answers for exported models; see `trainer.export.parity_worker`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import errors
from trainer.export import forked_worker

_SCRIPT = pathlib.Path(__file__).with_name("parity_worker.py")


def list_batch_sizes(rows: int, size: int) -> list[int]:
    """Returns the sizes of the batches of some rows."""
    return [min(size, rows - start) for start in range(0, rows, size)]


class ParityServer:
    """A process that loads exported models and answers for them, until this object is gone."""

    def __init__(self) -> None:
        self._process = forked_worker.take() or _start()
        self._asked = self._read = 0
        # By the number of the request; those that nobody has waited for yet.
        self._replies: dict[int, str] = {}

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> None:
        """Has a request of `trainer.export.parity_worker` answered.

        Raises `ModelError` if the model cannot be loaded or run, `RetryableError` if the process
        has ended.
        """
        self.begin(request)()

    def begin(self, request: Mapping[str, Any]) -> Callable[[], None]:
        """Sends a request and returns at once. The function it returns waits for the reply, and
        raises the errors of `ask`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # there will be no reply
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        self._asked += 1
        return functools.partial(self._finish, self._asked, str(request["export"]))

    def _finish(self, number: int, export: str) -> None:
        assert self._process.stdout is not None
        try:
            while self._read < number:
                self._read += 1
                self._replies[self._read] = self._process.stdout.readline()
        except BaseException:
            # Half of a reply may be lost.
            self._process.kill()
            self._process.wait()
            raise
        reply = self._replies.pop(number)
        if not reply:
            raise errors.RetryableError(
                f"the process that checks exports ended with {self._process.wait()}. Run the same "
                "command to resume."
            )
        error = json.loads(reply).get("error")
        if error:
            raise errors.ModelError(
                f"export {export!r}: cannot be served ({error}). Nothing was published"
            )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=forked_worker.choose_environment(os.environ),
        text=True,
    )


@functools.cache
def _list_servers() -> list[ParityServer]:
    return []


def get_shared_server() -> ParityServer:
    """Returns the one server of this process, started when it is first needed, unless it has been
    forked ahead: TensorFlow takes seconds to import."""
    servers = _list_servers()
    if not servers or not servers[-1].lives:
        servers[:] = [ParityServer()]
    return servers[-1]
