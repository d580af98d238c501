"""What the processes of a run have used so far, read from outside: /proc and their accounts."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import time
from collections.abc import Mapping

from pipeline.cluster import topology
from pipeline.processes import isolation
from pipeline.runs import accounts, run_folder
from pipeline.runs.accounts import Account
from pipeline.runs.run_folder import RunFolder, Status

_TICKS = os.sysconf("SC_CLK_TCK")
_MEMORY = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_LOOPBACK = re.compile(r"^\s*lo:\s*(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A moment of a run: processor seconds and memory by task, bytes over its own network (`None`
    if it shares this machine's), and the newest account of each process that trains."""

    time: float
    cpu: Mapping[str, float]
    memory: Mapping[str, int]
    network: int | None
    accounts: Mapping[str, Account]
    statuses: Mapping[str, Status]


def look(run: RunFolder) -> Snapshot:
    """Returns what the run has used until now. Processes that are gone are left out."""
    statuses = run_folder.read_statuses(run)
    cpu, memory, network = {}, {}, None
    for task, status in statuses.items():
        try:
            cpu[task] = processor_seconds(status.pid)
            memory[task] = _read_peak_memory(status.pid)
            if network is None and isolation.is_isolated(status.pid):
                network = _read_network_bytes(status.pid)
        except (OSError, IndexError):
            continue
    trained = {
        one.task: one
        for one in accounts.read(run)
        if one.task.rpartition("-")[0] in topology.TRAINING_ROLES
    }
    return Snapshot(time.time(), cpu, memory, network, trained, statuses)


def processor_seconds(pid: int) -> float:
    """Returns what a process has taken, in user and system mode. Raises `OSError`."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _read_peak_memory(pid: int) -> int:
    found = _MEMORY.search(pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _read_network_bytes(pid: int) -> int:
    """Returns what has gone over the loopback of the network that a process is in."""
    found = _LOOPBACK.search(pathlib.Path(f"/proc/{pid}/net/dev").read_text())
    return int(found[1]) if found else 0
