"""What machine a process runs on: for those who compare the speed of runs."""

from __future__ import annotations

import glob
import os
import platform
from typing import Any

from pipeline.processes import environment


def describe() -> dict[str, Any]:
    """Returns processors that this process may use, bytes of memory of the machine, the number of
    its GPUs by NVIDIA, and its system."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": environment.processors(),
        "memory": pages * size,
        "gpus": len(glob.glob("/dev/nvidia[0-9]*")),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
