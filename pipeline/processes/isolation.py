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

# From <linux/sched.h>, <linux/mount.h>, <linux/fs.h>, <linux/sockios.h> and <linux/if.h>.
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 1 << 5, 1 << 12, 1 << 14, 1 << 18, 2
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1


class Isolate(enum.Enum):
    """The values of --isolate."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclasses.dataclass(frozen=True)
class Isolation:
    """Whether the cluster gets a network of its own, and the line that says so."""

    isolated: bool
    line: str


def find_obstacle() -> str | None:
    """Returns why this system lets us make no network, or `None` if it does. Tries it in a process
    that ends at once."""
    return _try(enter)


def find_mounts_obstacle() -> str | None:
    """Returns why this system lets us make no mounts of our own, or `None`, as `find_obstacle`."""
    return _try(enter_mounts)


def _try(action: Callable[[], None]) -> str | None:
    if sys.platform != "linux":
        return "only Linux can"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        reason = ""
        try:
            action()
        except OSError as error:
            reason = error.strerror or str(error)
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
    wanted: Isolate, *, remote: bool, why_not: Callable[[], str | None] = find_obstacle
) -> Isolation:
    """Returns what to do about a cluster; `remote` is true if it needs the network for its storage.

    Raises `UsageError` if isolation is wanted and cannot be had.
    """
    if wanted is Isolate.OFF:
        return Isolation(False, "network: shared with this machine (--isolate=off)")
    problem = "its storage is remote" if remote else why_not()
    if problem is None:
        return Isolation(True, "network: the cluster's own; its ports are closed to the outside")
    if wanted is Isolate.ON:
        raise errors.UsageError(f"--isolate=on: cannot be done here: {problem}")
    return Isolation(False, f"network: shared with this machine ({problem})")


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
    _unshare(_CLONE_NEWNET, "network namespaces")
    _set_loopback(up=True)


def enter_mounts() -> None:
    """Moves this process, and those it will fork, to mounts that no other process sees: they end
    with the last of these processes. Rights as of `enter`. Raises `OSError` if that is not
    permitted."""
    _unshare(_CLONE_NEWNS, "mount namespaces")
    mount("none", "/", flags=_MS_REC | _MS_PRIVATE)


def mount(kind: str, path: str, options: str = "", *, flags: int = 0) -> None:
    """Mounts a file system without a device, or changes the one at `path`. Raises `OSError`."""
    _mount(kind, path, kind, options=options, flags=flags)


def bind(path: str) -> None:
    """Makes the folder `path` a mount of its own. Raises `OSError`."""
    _mount(path, path, "none", flags=_MS_BIND)


def _mount(source: str, path: str, kind: str, *, options: str = "", flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (source.encode(), path.encode(), kind.encode())
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def unmount(path: str) -> None:
    """Takes what is mounted at `path` away, at once. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(path.encode(), _MNT_DETACH):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def is_isolated(pid: int) -> bool:
    """True if a process has another network than this one."""
    return os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino


def set_loopback_of(pid: int, *, up: bool) -> None:
    """Takes the loopback of the network that process `pid` is in down, or up again: without it,
    processes there do not reach each other. Done by a process that ends at once. Raises `OSError`
    if that is not permitted, or if the process is gone or has no network of its own."""
    if not is_isolated(pid):
        raise OSError("it shares the network of this machine")
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if not ctypes.CDLL(None).setns(network, _CLONE_NEWNET):
                _set_loopback(up=up)
                code = 0
        finally:
            os._exit(code)
    os.close(network)
    if os.waitpid(child, 0)[1]:
        raise OSError("the system does not permit to shape its links")


def _unshare(flag: int, what: str) -> None:
    """Raises `OSError` if the system permits no such namespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flag):
        user, group = os.getuid(), os.getgid()
        refused = f"the system permits no {what}"
        if libc.unshare(_CLONE_NEWUSER | flag):
            raise OSError(ctypes.get_errno(), refused)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            try:
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
            except OSError as error:  # such as of root without its capabilities
                raise OSError(error.errno, refused) from error


def _set_loopback(*, up: bool) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        wanted = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", wanted))
