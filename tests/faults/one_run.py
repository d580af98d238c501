"""One preprocessing run in a group of processes of its own, so that all of it can be killed."""

from __future__ import annotations

import os

from pipeline.config import config_file
from preprocessing.build import job
from preprocessing.sources import base


def run(
    config_path: str,
    shards: int,
    root: str,
    *,
    num_workers: int = 1,
    chunk_bytes: int = base.Sizes.chunk,
    output: str = os.devnull,
) -> None:
    """Makes the records with so many shards, and writes what it prints to the file `output`. It is
    started from a fork server that has Beam."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sizes = base.Sizes(min(chunk_bytes, base.Sizes.read), chunk_bytes)
    loaded = config_file.load(config_path, [f"data.shards.train={shards}"])
    job.run(loaded, root, num_workers=num_workers, sizes=sizes)
