"""How many GPUs this machine has, without loading TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping


def count(environment: Mapping[str, str], devices: str = "/dev") -> int:
    """Returns the number of NVIDIA GPUs that processes with this environment may use."""
    names = os.listdir(devices) if os.path.isdir(devices) else []
    present = sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    # As CUDA reads it: everything behind the first entry that is not a device is out of sight.
    listed = [entry.strip() for entry in visible.split(",")]
    valid = next((n for n, e in enumerate(listed) if e in ("", "-1")), len(listed))
    return min(present, valid)
