"""Slurm's accounting for a cluster of the tests: a real slurmdbd on a MariaDB of its own.

Both keep their files in a folder of the test and are ended by their process ids.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

from pipeline.supervision.ports import Reservation
from tests.slurm import real

# Debian: apt-get install slurmdbd mariadb-server-core mariadb-client-core
PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
_CONFIG = """\
{authentication}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={root}/slurmdbd.log
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=root
StorageLoc=accounting
"""
_SETTINGS = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu"""
_NONE = "AccountingStorageType=accounting_storage/none"


def list_missing() -> list[str]:
    """Returns the programs of accounting that this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name, path=real.PATH) is None]


@contextlib.contextmanager
def run_accounting(cluster: real.Slurm) -> Iterator[None]:
    """Gives a cluster that has not started an account database, and ends that after the block."""
    root = cluster.config.parent
    ports = Reservation(2)
    port, database_port = ports.ports
    (root / "database").mkdir()
    common = ["--no-defaults", f"--user={real.USER}", f"--datadir={root}/database"]
    own_login = "--auth-root-authentication-method=normal"
    options = [*common, own_login, "--skip-test-db", "--skip-name-resolve"]
    _call(cluster, "mariadb-install-db", *options)
    config = root / "slurmdbd.conf"
    text = cluster.config.read_text()
    assert _NONE in text
    config.write_text(
        _CONFIG.format(
            authentication="\n".join(re.findall("^Auth.*$", text, re.M)),
            port=port,
            user=real.USER,
            root=root,
            database_port=database_port,
        )
    )
    config.chmod(0o600)
    cluster.config.write_text(text.replace(_NONE, _SETTINGS.format(port=port)))
    address = ["--bind-address=127.0.0.1", f"--port={database_port}", f"--socket={root}/socket"]
    with (
        real.daemon(cluster, "mariadbd", *common, *address),
        real.daemon(cluster, "slurmdbd", "-D"),
    ):
        real.wait_for(
            lambda: "sacctmgr: error" not in cluster.ask("sacctmgr", "show", "cluster"),
            lambda: "".join(_log(root, name) for name in ("mariadbd", "slurmdbd")),
        )
        yield
    ports.release()


def _call(cluster: real.Slurm, *command: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **cluster.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def change(cluster: real.Slurm, *words: str) -> None:
    """Adds or modifies accounts, users and QOS."""
    _call(cluster, "sacctmgr", "--immediate", "--quiet", *words)


def _log(root: pathlib.Path, name: str) -> str:
    return (root / f"{name}.out").read_text(errors="replace")[-2000:]
