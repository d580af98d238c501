"""The first images of MNIST as raw data of a job, small enough that tests and soaks are quick."""

from __future__ import annotations

import gzip
import pathlib

import numpy as np

from pipeline import config
from pipeline.config import config_file
from tests.preprocessing import idx_files

TRAIN, TEST = 3000, 500
_FILES = {"train": "train", "test": "t10k"}


def write(
    folder: pathlib.Path,
) -> tuple[config.Config, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Writes 3,000 train and 500 test images, and the job `small.yaml` that is made of them.

    Returns the job, and images and labels by the split of the raw files: uint8, `[rows, 28, 28]`
    and `[rows]`. The eval split is 5 percent of train; shards and blocks are as uneven as real
    ones.
    """
    images, labels, overrides = {}, {}, ["name=small"]
    for split, rows in (("train", TRAIN), ("test", TEST)):
        images[split] = _values(f"{_FILES[split]}-images-idx3-ubyte.gz", (28, 28), rows)
        labels[split] = _values(f"{_FILES[split]}-labels-idx1-ubyte.gz", (), rows)
        for role, values in (("images", images[split]), ("labels", labels[split])):
            path = folder / f"{split}-{role}"
            path.write_bytes(idx_files.idx_bytes(values))
            overrides.append(f"data.inputs.{split}.{role}={path}")
    overrides += ["data.block_records=32", "data.shards={train: 3, eval: 1, test: 2}"]
    job = config_file.load("mnist_mlp", overrides)
    (folder / "small.yaml").write_text(config_file.dump(job))
    return job, images, labels


def _values(name: str, shape: tuple[int, ...], rows: int) -> np.ndarray:
    path = config_file.SHIPPED.parent / "data" / "mnist" / name
    head = 8 + 4 * len(shape)
    size = int(np.prod(shape, dtype=int))
    with gzip.open(path) as file:
        content = file.read(head + rows * size)
    return np.frombuffer(content, np.uint8, offset=head).reshape(rows, *shape)
