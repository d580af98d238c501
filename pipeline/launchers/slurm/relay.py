"""Passes on connections to a worker whose node was not known when the others began.

TensorFlow's servers are given all addresses at their start, and none later. So the place of a
worker that may join has an address on the first node of the job; what parameter servers fetch from
the worker passes through there.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

# `(host, port)` of a worker, or `None` if it is not there.
Find = Callable[[], tuple[str, int] | None]

_CHUNK = 1 << 20  # bytes
_CONNECT = 10.0  # seconds


class Relay:
    """Listens on one port until it is closed."""

    def __init__(self, port: int, find: Find) -> None:
        """`find` is called for each connection. Raises `OSError` for a port that is taken."""
        self._find = find
        self._listener = socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64
        )
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Takes no more connections; those that there are end with their peers."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=[client], name="relay", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Joins a connection with one to the worker. Without it the client tries again later."""
        with client:
            place = self._find()
            if place is None:
                return
            try:
                worker = socket.create_connection(place, timeout=_CONNECT)
            except OSError:
                return
            with worker:
                worker.settimeout(None)
                for one in (client, worker):  # or small messages wait for their acknowledgement
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                back = threading.Thread(target=_pass_on, args=[worker, client], daemon=True)
                back.start()
                _pass_on(client, worker)
                back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Copies all that comes until one side has ended, and then ends the other."""
    buffer = memoryview(bytearray(_CHUNK))
    with contextlib.suppress(OSError):
        while count := source.recv_into(buffer):
            target.sendall(buffer[:count])
    for side in (source, target):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
