"""A network of its own for a local cluster.

TensorFlow's servers listen on all addresses and do what anyone tells them
(docs/tensorflow-pitfalls.md#servers-on-all-addresses). In a network namespace with nothing but a
loopback, they cannot be reached from outside the run.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable

from pipeline import errors

# From <linux/sched.h>, <linux/sockios.h> and <linux/if.h>.
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1


class Isolate(enum.Enum):
    """The values of --isolate."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclasses.dataclass(frozen=True)
class Decision:
    """Whether the cluster gets a network of its own, and the line that says so."""

    isolated: bool
    line: str


def why_not() -> str | None:
    """Returns why this system lets us make no network, or `None` if it does. Tries it in a process
    that ends at once."""
    if sys.platform != "linux":
        return "only Linux can"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        reason = ""
        try:
            enter()
        except BaseException as error:
            reason = str(error) or type(error).__name__
        os.write(write, reason.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8", errors="replace") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said or None


def decide(
    wanted: Isolate, *, remote: bool, why_not: Callable[[], str | None] = why_not
) -> Decision:
    """Returns what to do about a cluster; `remote` is true if it needs the network for its storage.

    Raises `UsageError` if isolation is wanted and cannot be had.
    """
    if wanted is Isolate.OFF:
        return Decision(False, "network: shared with this machine (--isolate=off)")
    problem = "its storage is remote" if remote else why_not()
    if problem is None:
        return Decision(True, "network: the cluster's own; its ports are closed to the outside")
    if wanted is Isolate.ON:
        raise errors.UsageError(f"--isolate=on: cannot be done here: {problem}")
    return Decision(False, f"network: shared with this machine ({problem})")


def note(addresses: Iterable[str]) -> str:
    """Returns the line to say before TensorFlow's servers start at `addresses` without a network of
    their own."""
    listed = ", ".join(address.rpartition(":")[2] for address in addresses)
    return (
        f"note: TensorFlow's servers let in anyone who reaches their ports ({listed} on all "
        "addresses of this machine); keep them behind a firewall"
    )


def enter() -> None:
    """Moves this process, and those it will fork, to a network with only a loopback.

    Without the right to, it becomes the owner of a user namespace first, in which it has it; to
    others it stays the user it was. Must be called before there are threads.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        user, group = os.getuid(), os.getgid()
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "the system permits no network namespaces")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _bring_up_loopback()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
