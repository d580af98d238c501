"""The rows as arrays for models that take no text: those that `workload` has written."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np


def load(given: dict[str, Any], split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns numbers, `[rows, 2 * numbers]`, ids, `[rows, ids]`, and labels, `[rows]`."""
    folder = pathlib.Path(given["arrays"], split)
    numbers, ids, label = (np.load(folder / f"{n}.npy") for n in ("numbers", "ids", "label"))
    return numbers, ids, label
