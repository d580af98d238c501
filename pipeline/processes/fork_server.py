"""The process that all processes of a run are forked from; see `pipeline.processes.fork_client`.

`python -m pipeline.processes.fork_server NETWORK MODULE FD...` enters a network of its own if
NETWORK is `isolated`, imports MODULE (and with it TensorFlow, of which no op may run here: its
thread pools do not survive a fork), then forks a process for every `Spawn` it reads from the
connection FD. The other descriptors are locks, kept open. It has one thread, because the kernel's
parent-death signal comes when the forking *thread* ends.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from pipeline import errors, redaction
from pipeline.processes import collector, isolation, parent_death
from pipeline.processes.fork_client import Ended, PreloadFailed, Signal, Spawn, Started

# What a machine that shuts down sends to every process. This one ends with the launcher, which lets
# the others save first.
_HELD_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Imports, then serves until the launcher is gone. Returns the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)  # in threads of libraries, too
    network, module, *descriptors = arguments
    if network == "isolated":
        isolation.enter()
    for descriptor in descriptors:
        os.set_inheritable(int(descriptor), False)
    launcher = connection.Connection(int(descriptors[0]))
    try:
        importlib.import_module(module)
    except BaseException as error:
        traceback.print_exc()
        said = f"cannot import {module}: {errors.describe(error)}"
        refused = errors.translate_import_error(error) or errors.PipelineError(said)
        with contextlib.suppress(OSError):
            launcher.send(PreloadFailed(str(refused), refused.exit_code))
        return 1
    # What is loaded by now stays shared between the processes, if the collector leaves it alone.
    gc.collect()
    gc.freeze()
    collector.relax()
    _Server(launcher).serve()
    return 0


class _Server:
    def __init__(self, launcher: connection.Connection) -> None:
        self._launcher = launcher
        self._children: dict[str, int] = {}
        self._die_with_parent = parent_death.arrange()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        # With a handler set, the end of a child writes a byte into the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def serve(self) -> None:
        try:
            while True:
                ready = connection.wait([self._launcher, self._wake_read])
                if self._wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                if self._launcher in ready:
                    self._obey(self._launcher.recv())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the launcher is gone
        finally:
            for pid in self._children.values():
                _kill_group(pid)

    def _obey(self, message: Spawn | Signal) -> None:
        if isinstance(message, Spawn):
            self._spawn(message)
            return
        pid = self._children.get(message.name)
        if pid is None:
            return
        if message.number == signal.SIGKILL:
            _kill_group(pid)
        else:
            # Not reaped yet, so the number cannot belong to another process.
            os.kill(pid, message.number)

    def _spawn(self, request: Spawn) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._become(request)
                code = _call(request)
            finally:
                # Without the destructors of C++ libraries, which wait for servers that never end.
                os._exit(code)
        # Both sides do it, so that the group exists whichever comes first.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        self._children[request.name] = pid
        self._launcher.send(Started(request.name, pid))

    def _become(self, request: Spawn) -> None:
        """Turns the fork into a process of its own. Order matters: first what may lose it."""
        os.setpgid(0, 0)
        self._die_with_parent()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
        self._launcher.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(log)
        os.close(nothing)
        os.environ.update(request.environment)
        parent_death.set_name(request.name)
        faulthandler.enable()

    def _reap(self) -> None:
        names = {pid: name for name, pid in self._children.items()}
        while names:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = names.pop(pid, None)
            if name is None:
                continue
            _kill_group(pid)  # what the process may have started itself
            del self._children[name]
            self._launcher.send(Ended(name, pid, os.waitstatus_to_exitcode(status)))


def _call(request: Spawn) -> int:
    """Runs the entry function and returns the exit code of the process."""
    code = 0
    try:
        _resolve(request.entry)(*request.args)
    except errors.PipelineError as error:
        code = error.exit_code
        with contextlib.suppress(OSError):  # the log may be on a disk that is full
            print(redaction.redact(error.line), file=sys.stderr)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        print(redaction.redact(traceback.format_exc()), file=sys.stderr, end="")
        code = 1
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _resolve(entry: str) -> Callable[..., Any]:
    module, _, name = entry.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
