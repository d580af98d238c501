"""How many GPUs this machine has, without loading TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pipeline import errors


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


# Set by a place that has given the machine of a process so many GPUs; a whole number.
PROMISED = "PIPELINE_GPUS"


def check_promised(environment: Mapping[str, str], seen: int) -> None:
    """Raises `UsageError` if a process was promised GPUs, and TensorFlow has `seen` none: it would
    train on the CPU of a machine that costs ten times as much."""
    promised = environment.get(PROMISED, "")
    if promised.isdigit() and int(promised) and not seen:
        raise errors.UsageError(
            f"this machine has {promised} GPUs by the config, and TensorFlow sees none. Use an "
            "image with CUDA (make image CUDA=yes); its driver must be in LD_LIBRARY_PATH, as "
            "/usr/local/nvidia/lib64"
        )
