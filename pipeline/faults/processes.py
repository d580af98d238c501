"""The processes of a run on this machine, found without the help of its launcher."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterable

from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder

_MAY_TAKE = 20.0  # seconds


def is_alive(pid: int) -> bool:
    """False for zombies too: their parent may not have waited for them yet."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def processes_of(path: str) -> set[int]:
    """Returns all processes on this machine, other than this one and those it descends from, whose
    command line, environment or working folder names `path`."""
    own, pid = set(), os.getpid()
    while pid > 1:
        own.add(pid)
        pid = parent_of(pid)
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            about = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            where = os.readlink(folder / "cwd")
            if (path.encode() in about or path in where) and int(folder.name) not in own:
                found.add(int(folder.name))
    return found


def find_survivors(path: str, pids: Iterable[int] = ()) -> dict[int, str]:
    """Returns the command lines of `pids` and of all processes that name the run's folder `path`,
    as far as they outlive its launcher for longer than they may: the kernel needs a moment to end
    one that was killed, and one whose launcher was killed has to notice."""
    deadline = time.monotonic() + _MAY_TAKE
    while True:
        found = {pid for pid in {*pids, *processes_of(path)} if is_alive(pid)}
        if not found or time.monotonic() > deadline:
            return {pid: command_line(pid).replace(b"\0", b" ").decode() for pid in sorted(found)}
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    """Returns the parent of a process; 0 if it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def command_line(pid: int) -> bytes:
    """Returns the words of a process's command, each ended by a zero; nothing if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def pids_of(target: str, run: RunFolder) -> list[int]:
    """Returns the processes of a fault's target: a task, `all` that work, or the `launcher`. Empty
    unless all of them live."""
    if target == "launcher":
        record = run_record.read(run)
        pid = record.launcher.pid if record and record.launcher else 0
        return [pid] if pid and os.path.exists(f"/proc/{pid}") else []
    tasks = [target]
    if target == "all":  # those that have not ended well before the chief has saved
        statuses = run_folder.read_statuses(run)
        tasks = sorted(name for name, one in statuses.items() if one.state != "done")
    found = [find_living_pid(task, run) for task in tasks]
    return [] if None in found else [pid for pid in found if pid is not None]


def find_living_pid(task: str, run: RunFolder) -> int | None:
    """Returns the process of a task, if it lives; never that of another one with its number."""
    status = run_folder.read_statuses(run).get(task)
    if status is None:
        return None
    try:
        with open(f"/proc/{status.pid}/comm", encoding="ascii") as file:
            return status.pid if file.read().strip() == task[:15] else None
    except OSError:
        return None


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those of the processes that are still there; to this one last."""
    for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
