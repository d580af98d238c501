"""munge for a cluster of the tests: a munged with a key of its own, as most sites have it.

Nothing of the system's own munge is read or written, and it is ended by its process id.
"""

from __future__ import annotations

import contextlib
import pathlib
import secrets
import shutil
from collections.abc import Iterator

from tests.slurm import real

# Debian: apt-get install munge
PROGRAMS = ("munged",)
_NONE = "AuthType=auth/none\nCredType=cred/none"
# Clients of slurmdbd take the socket from nothing but its "password".
_MUNGE = """\
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
AccountingStoragePass={socket}"""


def list_missing() -> list[str]:
    """Returns the programs of munge that this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name, path=real.PATH) is None]


@contextlib.contextmanager
def authenticate(cluster: real.Slurm) -> Iterator[None]:
    """Has a cluster that has not started authenticate by munge, within the block."""
    text = cluster.config.read_text()
    assert _NONE in text
    with run_munge(cluster, "munge") as socket:
        cluster.config.write_text(text.replace(_NONE, _MUNGE.format(socket=socket)))
        yield


@contextlib.contextmanager
def stop_within(cluster: real.Slurm) -> Iterator[None]:
    """Has nobody reach the munged of a cluster, within the block."""
    socket = cluster.config.parent / "munge" / "socket"
    elsewhere = socket.with_name("elsewhere")
    socket.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(socket)


@contextlib.contextmanager
def run_munge(cluster: real.Slurm, name: str) -> Iterator[pathlib.Path]:
    """Runs a munged with a new key, in a folder of the cluster, and yields its socket."""
    root = cluster.config.parent / name
    root.mkdir(mode=0o700)
    socket, key = root / "socket", root / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = [f"--{kind}-file={root / kind}" for kind in ("key", "log", "pid", "seed")]
    # By force: munged wants a folder that all users may enter, and those of tests are their user's.
    command = ["munged", "--foreground", "--force", f"--socket={socket}", *files]
    with real.daemon(cluster, *command):
        real.wait_for(socket.exists, (cluster.config.parent / "munged.out").read_text)
        yield socket
