"""How much memory a process may still take, and what was killed for lack of it."""

from __future__ import annotations

import pathlib
import re

_MEMINFO = "/proc/meminfo"
_CGROUP = "/sys/fs/cgroup"
_OWN_CGROUP = "/proc/self/cgroup"
_VMSTAT = "/proc/vmstat"


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


def count_kills(
    own: str = _OWN_CGROUP, cgroup: str = _CGROUP, *, vmstat: str = _VMSTAT
) -> int | None:
    """Returns how many processes the kernel has killed for lack of memory: those of this process's
    control group, or on this machine where groups do not count them (version 1); `None` where the
    system does not say. The kernel counts before it kills."""
    group = re.search(r"^0::/(.*)$", _read(own), re.MULTILINE)
    for path in (f"{cgroup}/{group[1] if group else ''}/memory.events", vmstat):
        if found := re.search(r"^oom_kill (\d+)$", _read(path), re.MULTILINE):
            return int(found[1])
    return None


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
