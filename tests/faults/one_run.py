"""One preprocessing run in a group of processes of its own, so that all of it can be killed."""

from __future__ import annotations

import os

from pipeline.config import config_file
from preprocessing.build import job


def run(config_path: str, shards: int, root: str) -> None:
    """Makes the records with so many shards. It is started from a fork server that has Beam."""
    os.setsid()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    job.run(config_file.load(config_path, [f"data.shards.train={shards}"]), root)
