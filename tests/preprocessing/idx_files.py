"""Makes small IDX files and configs that read them."""

from __future__ import annotations

import gzip
import pathlib
import struct
from typing import Any

import numpy as np

from pipeline import config
from pipeline.config import config_file


def idx_bytes(values: np.ndarray) -> bytes:
    """Returns unsigned bytes of any shape as an IDX file."""
    head = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def pack(content: bytes) -> bytes:
    """Compresses without a time stamp."""
    return gzip.compress(content, mtime=0)


def images(rows: int, *, seed: int = 0, shape: tuple[int, ...] = (28, 28)) -> np.ndarray:
    """Returns images that are all different."""
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape), np.uint8)


def labels(rows: int) -> np.ndarray:
    """Returns the labels 0 to 9, again and again."""
    return np.arange(rows, dtype=np.uint8) % 10


def write_pair(
    folder: pathlib.Path, split: str, rows: int, *, packed: bool = False
) -> dict[str, str]:
    """Writes the two files of a split and returns its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for role, values in (("images", images(rows)), ("labels", labels(rows))):
        path = folder / f"{split}-{role}"
        path.write_bytes(pack(idx_bytes(values)) if packed else idx_bytes(values))
        found[role] = str(path)
    return found


def make_config(inputs: dict[str, dict[str, str]], **data: Any) -> config.Config:
    """Returns a config named `tiny` that reads `inputs`; `data` replaces values of its section."""
    tree = {
        "name": "tiny",
        "data": {
            "inputs": inputs,
            "columns": {
                "image": {"type": "uint8", "shape": [28, 28, 1]},
                "label": {"type": "int64", "min": 0, "max": 9},
            },
            "label": "label",
            "shards": {"train": 3},
            "block_records": 16,
            **data,
        },
        "model": {"name": "mnist_cnn"},
        "train": {"steps": 1},
    }
    return config_file.validate(tree, where="test")
