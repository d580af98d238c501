"""How much memory a process may still take."""

from __future__ import annotations

import pathlib
import re

_MEMINFO = "/proc/meminfo"
_CGROUP = "/sys/fs/cgroup"


def available(meminfo: str = _MEMINFO, cgroup: str = _CGROUP) -> int | None:
    """Returns bytes that are free on this machine, or in its container if that allows fewer;
    `None` where the system does not say (it is not Linux)."""
    try:
        text = pathlib.Path(meminfo).read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    if found is None:
        return None
    here = int(found[1]) * 1024
    try:
        limit, used = (
            pathlib.Path(cgroup, name).read_text(encoding="ascii").strip()
            for name in ("memory.max", "memory.current")
        )
    except OSError:
        return here
    return here if limit == "max" else min(here, max(0, int(limit) - int(used)))
