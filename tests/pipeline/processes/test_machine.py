"""What the status of a process says of its machine."""

from __future__ import annotations

import os
import pathlib
import re

from pipeline.processes import machine


def test_it_describes_this_machine():
    found = machine.describe()
    assert 1 <= found["cores"] <= os.cpu_count()
    total = re.search(r"^MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    assert found["memory"] == int(total[1]) * 1024
    assert found["gpus"] == len(list(pathlib.Path("/dev").glob("nvidia[0-9]*")))
    assert found["system"].split() == [os.uname().sysname, os.uname().release, os.uname().machine]
