"""Looks at one node before a job trains there: the run folder, the code, the ports.

It prints one line of JSON; the batch part of the job reads those of all nodes.
"""

from __future__ import annotations

import json
import os
import platform
import socket

from pipeline import errors, versions
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import ports

# What the batch script writes into the run folder: {"nonce": str}.
SEEN = "slurm/check.json"


def run_part(run: RunFolder, first: int, count: int) -> None:
    """Prints what this node is like, and which of `count` ports from `first` on are taken."""
    found = {
        "node": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "nonce": _read_nonce(run),
        "python": platform.python_version(),
        "code": versions.code_version(),
        "taken": [port for port in range(first, first + count) if ports.is_taken(port)],
    }
    print(json.dumps(found), flush=True)


def _read_nonce(run: RunFolder) -> str | None:
    try:
        return (run.read(SEEN) or {}).get("nonce")
    except (errors.PipelineError, OSError):
        return None
