"""Records of small tables that differ in what a test asks for."""

from __future__ import annotations

import contextlib
import io
import pathlib

import numpy as np

from preprocessing.build import job
from tests.preprocessing import tables


def make_records(
    root: pathlib.Path, name: str, *, shift: float = 0.0, missing: int = 0, word: str = "n"
) -> None:
    """Makes records `name` of 400 rows; `size` is shifted, some `name` are missing or others."""
    rng = np.random.default_rng(len(name))
    lines = [
        f"{i},{'' if i < missing else word + str(i % 3)},{rng.uniform(0, 50) + shift:.3f},{i % 2}"
        for i in range(400)
    ]
    (root / f"{name}.csv").write_text(tables.text(*lines))
    made = tables.make_config(root / f"{name}.csv")
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made.model_copy(update={"name": name}), str(root))
