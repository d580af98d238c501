"""Ports for a local cluster that nothing else takes between choosing and use.

A port chosen by bind-and-close is free for anyone a moment later
(docs/tensorflow-pitfalls.md#taken-ports). Two things close that gap. The ports lie below the range
the kernel gives to outgoing connections, so none of those can land on one, not even while a crashed
parameter server is down. And each is held by a locked file for as long as the reservation lives, so
that two launchers never choose the same one.

The library `portpicker` is not used: without a port server, which would have to run on each
machine, it closes the port before it returns it and locks nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import socket
import tempfile
from types import TracebackType

from pipeline import errors

_LOWEST = 10240
_DEFAULT_EPHEMERAL = 32768
_TRIES = 2000


class Reservation:
    """Ports that are ours until `release`, in the order asked for."""

    def __init__(self, count: int, *, rng: random.Random | None = None, folder: str = "") -> None:
        """Reserves `count` ports. Raises `RetryableError` if there are not enough free ones."""
        folder = folder or os.path.join(tempfile.gettempdir(), "estimator-pipeline-ports")
        self._locks: list[int] = []
        self.ports: list[int] = []
        candidates = rng or random.Random()
        highest = find_first_ephemeral() - 1
        with contextlib.ExitStack() as sockets:
            # The sockets stay open until all are chosen, so that no port is chosen twice.
            for _ in range(_TRIES):
                if len(self.ports) == count:
                    return
                self._try(candidates.randint(_LOWEST, highest), folder, sockets)
        self.release()
        raise errors.RetryableError(
            f"cannot find {count} free ports between {_LOWEST} and {highest}. "
            "End the programs that listen there, or run the same command again."
        )

    def _try(self, port: int, folder: str, sockets: contextlib.ExitStack) -> None:
        lock = _lock(folder, port)
        if lock is None:
            return
        listener = sockets.enter_context(socket.socket())
        try:
            # On all addresses, as TensorFlow's servers do.
            listener.bind(("", port))
        except OSError:
            os.close(lock)
            return
        self._locks.append(lock)
        self.ports.append(port)

    @property
    def addresses(self) -> list[str]:
        """Returns the ports as `host:port` of this machine."""
        return [f"127.0.0.1:{port}" for port in self.ports]

    def release(self) -> None:
        """Gives the ports back."""
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()
        self.ports.clear()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def is_taken(port: int) -> bool:
    """True if another program listens on a port of this machine."""
    with socket.socket() as listener:
        # As TensorFlow's servers do: connections that were closed a moment ago are no hindrance.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def refusal(address: str, *, seconds: float = 5.0) -> str:
    """Returns why no connection to `host:port` can be made within some seconds; empty if one can,
    or if it is no such address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except OSError as error:
        return error.strerror or str(error)
    except (UnicodeError, OverflowError) as error:  # no host has such a name, nor such a port
        return str(error)
    return ""


def find_first_ephemeral() -> int:
    """Returns the first port that the system may give to others, above those reserved here."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            first = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _DEFAULT_EPHEMERAL
    # A system that gives out nearly everything leaves no room below; then any port must do.
    return first if first > _LOWEST + 1000 else 65536


def _lock(folder: str, port: int) -> int | None:
    """Returns a descriptor that holds the lock of `port`, or `None` if another process has it."""
    path = os.path.join(folder, str(port))
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            os.chmod(folder, 0o1777)  # every user of this machine locks here
        try:
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        doing = f"cannot lock a port in {folder!r}"
        raise errors.translate_os_error(error, doing, place_of="TMPDIR=") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
