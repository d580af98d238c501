"""Connections that are passed on to a worker on another node."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from pipeline.launchers.slurm.relay import Relay


def read_all(connection):
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found


@contextlib.contextmanager
def echoing():
    """A worker that sends back what it gets; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=echo, args=[connection], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()


def echo(connection):
    with connection, contextlib.suppress(OSError):
        while part := connection.recv(1 << 16):
            connection.sendall(part)


def exchange(port, message):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(message)
        found = b""
        while len(found) < len(message) and (part := client.recv(1 << 16)):
            found += part
        return found


def test_all_bytes_arrive_in_both_directions():
    with echoing() as address, contextlib.closing(Relay(0, lambda: address)) as relay:
        threads, found = [], []
        for number in range(4):
            message = bytes([number]) * 300_000
            one = threading.Thread(
                target=lambda m=message: found.append(exchange(relay.port, m) == m)
            )
            threads.append(one)
            one.start()
        for one in threads:
            one.join()
        assert found == [True] * 4


def test_a_worker_that_is_not_there_is_looked_for_again_at_the_next_connection():
    """It may join later, from another node."""
    with echoing() as address:
        places = [None, ("127.0.0.1", 1), address]  # nobody, one that has left, one that is there
        with contextlib.closing(Relay(0, lambda: places.pop(0))) as relay:
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", relay.port), timeout=30) as client:
                    assert read_all(client) == b""
            assert exchange(relay.port, b"hello") == b"hello"


def test_the_end_of_the_worker_ends_the_connection():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        contextlib.closing(Relay(0, listener.getsockname)) as relay,
        socket.create_connection(("127.0.0.1", relay.port), timeout=30) as client,
    ):
        worker, _ = listener.accept()
        worker.sendall(b"last")
        worker.close()
        assert read_all(client) == b"last"


def test_a_closed_relay_takes_no_connections():
    relay = Relay(0, lambda: None)
    port = relay.port
    relay.close()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
