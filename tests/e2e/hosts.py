"""Hosts on one machine: network namespaces with an address each, joined by a bridge."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator


def explain_unavailable() -> str | None:
    """Returns why hosts cannot be made here, or `None`."""
    if os.geteuid() != 0:
        return "network namespaces with addresses need root"
    if shutil.which("ip") is None:
        return "there is no `ip` (package iproute2)"
    try:
        with hosts(1):
            return None
    except subprocess.CalledProcessError as error:
        return f"not permitted: {error.stderr.strip()}"


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[tuple[str, str]]]:
    """Yields (namespace, address) of hosts that reach each other, and no other network.

    The bridge is in a namespace too, so that this machine's own network stays as it is.
    """
    mark = secrets.token_hex(2)
    switch = f"ep{mark}-switch"
    made: list[tuple[str, str]] = []
    with contextlib.ExitStack() as stack:
        _namespace(stack, switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number in range(count):
            name, address = f"ep{mark}-{number}", f"10.83.0.{number + 1}"
            _namespace(stack, name)
            port = f"port{number}"
            peer = ("type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", switch, "link", "add", port, *peer)
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            made.append((name, address))
        yield made


def _namespace(stack: contextlib.ExitStack, name: str) -> None:
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
