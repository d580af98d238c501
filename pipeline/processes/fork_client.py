"""The processes of a run: forked from one that has done the imports, and never left behind.

Five processes that import TensorFlow at once take 19 seconds on two cores; five forked from one
that has imported it run their first op within half a second each. So a *fork server*
(`pipeline.processes.fork_server`) imports the trainer once and forks a process whenever it is told
to. The standard library's own is not used: it swallows errors of the preload, imports the
launcher's main module into every child (and with it the launcher's flags), and does not report
which signal ended
a child once the server itself is gone.

Nothing outlives the launcher, however it ends (docs/tensorflow-pitfalls.md#orphaned-processes): the
server kills its children when its connection closes, and the kernel kills them when the server
dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection
from types import FrameType
from typing import Any, BinaryIO

from pipeline import errors
from pipeline.processes import parent_death

# Runs the server as `python -m` would, but finds this package before one of the same name in the
# current folder, which comes last.
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_RUN_SERVER = """\
import runpy, sys
sys.path = [sys.argv.pop(1), *filter(None, sys.path), ""]
runpy.run_module("pipeline.processes.fork_server", run_name="__main__", alter_sys=True)
"""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclasses.dataclass(frozen=True)
class Spawn:
    """Asks for a process that calls `entry` (`package.module:function`) with `args`.

    `name` is how the process is spoken of; its output is appended to the file `log`.
    """

    name: str
    entry: str
    args: tuple[Any, ...]
    log: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Signal:
    """Asks for a signal to a process; SIGKILL goes to all of its process group."""

    name: str
    number: int


@dataclasses.dataclass(frozen=True)
class Started:
    """Says that a process runs."""

    name: str
    pid: int


@dataclasses.dataclass(frozen=True)
class Ended:
    """Says that a process is gone: `code` is its exit code, or minus the signal's number."""

    name: str
    pid: int
    code: int


@dataclasses.dataclass(frozen=True)
class PreloadFailed:
    """Says that the preload failed, why, and with which exit code to end; no process can be had."""

    reason: str
    code: int


Event = Started | Ended


class ServerLostError(errors.RetryableError):
    """A fork server that has ended, and with it every process; `code` as in `Ended`."""

    def __init__(self, code: int) -> None:
        super().__init__(
            f"the fork server, which starts all processes, is lost: {describe_exit(code)}. "
            "Run the same command again to resume."
        )
        self.code = code


class StopRequest:
    """Counts Ctrl-C, SIGTERM and SIGHUP while it is installed, instead of dying of them.

    After the first only Ctrl-C counts, which a person presses: the others come twice at a time, as
    from `timeout` and make, or from a terminal and its shell.
    Waiting code watches `descriptor`, which becomes readable when a signal comes.
    """

    def __init__(self) -> None:
        self.count = 0
        self.name = ""
        self.descriptor, self._write_end = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._write_end, False)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.count and number != signal.SIGINT:
            return
        self.count += 1
        self.name = signal.Signals(number).name

    def wait(self, seconds: float) -> None:
        """Returns after that many seconds, or when a signal has come."""
        connection.wait([self.descriptor], seconds)
        self.drain()

    def drain(self) -> None:
        """Makes `descriptor` quiet again."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    @contextlib.contextmanager
    def install(self) -> Iterator[StopRequest]:
        """Handles the signals within the block. Main thread only."""
        before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
        wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            if before[number] is not signal.SIG_IGN:  # nohup wants it ignored
                signal.signal(number, self._note)
        try:
            yield self
        finally:
            for number in _STOP_SIGNALS:
                signal.signal(number, before[number])
            signal.set_wakeup_fd(wakeup)


class ForkServer:
    """The launcher's end of a fork server. A context manager: leaving it kills every process."""

    def __init__(
        self,
        preload: str,
        *,
        log: str,
        environment: Mapping[str, str],
        held: Sequence[int] = (),
        isolated: bool = False,
    ) -> None:
        """Starts the server, which imports `preload` while the caller continues. Raises what
        `errors.translate_os_error` says of a `log` that cannot be written.

        The processes of an `isolated` one have a network of their own, without any other.
        `held` are descriptors (of locks) that every process keeps open for as long as it lives.
        """
        self.isolated = isolated
        self._preload, self._log, self._held = preload, log, held
        self._environment = dict(environment)
        self._pids: dict[str, int] = {}
        self._start()

    def _start(self) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        descriptors = [theirs.fileno(), *self._held]
        network = "isolated" if self.isolated else "shared"
        with _open_log(self._log) as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _RUN_SERVER,
                    _ROOT,
                    network,
                    self._preload,
                    *map(str, descriptors),
                ],
                pass_fds=descriptors,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C in the terminal must reach the launcher only.
                start_new_session=True,
            )
        theirs.close()

    @property
    def pid(self) -> int:
        """The process that all others are forked from."""
        return self._process.pid

    def restart(self) -> None:
        """Starts the server again after it was lost."""
        self._connection.close()
        self._start()

    def spawn(self, request: Spawn) -> None:
        """Asks for a process; `wait` reports when it has started and when it has ended."""
        self._send(request)

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to a process, if it is still there."""
        self._send(Signal(name, number))

    def wait(self, timeout: float, also: Sequence[int] = ()) -> list[Event]:
        """Returns what has happened, waiting up to `timeout` seconds for the first event.

        Returns early when one of the descriptors `also` is readable. Raises `ServerLostError`
        when the server is gone, and with it every process.
        """
        events: list[Event] = []
        ready = connection.wait([self._connection, *also], timeout)
        while self._connection in ready:
            try:
                message = self._connection.recv()
            except (EOFError, ConnectionResetError):
                raise self._build_lost_error() from None
            if isinstance(message, PreloadFailed):
                raise errors.build_from_exit_code(
                    message.code, f"{message.reason}. Log: {self._log}"
                )
            if isinstance(message, Started):
                self._pids[message.name] = message.pid
            else:
                self._pids.pop(message.name, None)
            events.append(message)
            ready = connection.wait([self._connection], 0)
        return events

    def close(self) -> None:
        """Kills every process and the server, and waits until the server is gone."""
        self._connection.close()
        try:
            # It kills its children and ends as soon as the connection is closed, unless it
            # is within an import.
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._kill_groups()

    def _send(self, message: Spawn | Signal) -> None:
        try:
            self._connection.send(message)
        except (BrokenPipeError, ConnectionResetError):
            # The reason may still be waiting to be read; `wait` reports it.
            return

    def _build_lost_error(self) -> ServerLostError:
        code = self._process.wait()
        self._kill_groups()
        return ServerLostError(code)

    def _kill_groups(self) -> None:
        """Kills what a dead server may have left; returns when it is gone, or soon after."""
        deadline = time.monotonic() + 0.3
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                while time.monotonic() < deadline:
                    os.killpg(pid, signal.SIGKILL)
                    time.sleep(0.01)
        self._pids.clear()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_log(log: str) -> BinaryIO:
    try:
        return open(log, "ab")
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write {log!r}") from None


def describe_exit(code: int) -> str:
    """Says how a process ended, for people."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stop: StopRequest,
    grace: float = 10.0,
    poll: Callable[[], object] = lambda: None,
) -> int:
    """Runs a command to its end in this terminal and returns its exit code.

    A stop request becomes SIGTERM for the command, then SIGKILL after `grace` seconds; the
    command dies with this process. `poll` is called a few times a second.
    """
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=parent_death.arrange(),  # the launcher has no threads
    ) as process:
        asked = False
        try:
            while process.poll() is None:
                connection.wait([stop.descriptor], 0.1)
                stop.drain()
                poll()
                if stop.count > 1:
                    break
                if stop.count and not asked:
                    asked = True
                    process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=grace)
                    break
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
