"""Successive halving against a full random search, on the sample of flights, in examples.

Both try the same trials: values are drawn by one seed. After a pause records are mixed again and
dropout draws other numbers, so the value of a trial may differ a little between the two searches.
Figures are examples, not seconds.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.result import Result
from pipeline.config import config_file
from pipeline.storage import strict_json

_SEED, _TRIALS, _STEPS, _BATCH = 1, 12, 270, 64
_SPACE = """\
train.optimizer.learning_rate: {low: 1e-4, high: 1e-1, log: true}
model.params.dropout: {low: 0.0, high: 0.5}
model.params.hidden_units: {choices: [[16], [64], [128, 64]]}
"""
_SETTINGS = (
    f"data.inputs.train.files={config_file.SHIPPED.parent}/data/flights/sample.csv.gz",
    "cluster.strategy=none",
    f"train.steps={_STEPS}",
    f"train.batch_size={_BATCH}",
    "train.optimizer.schedule.warm_up_steps=10",
)


def run(storage_root: str) -> list[Result]:
    """Searches twice, and compares examples and the best value."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        full, asha = (_search(folder, method) for method in ("full", "asha"))
    what = f"a full random search of {_TRIALS} trials, seed {_SEED}"
    return [
        Result(
            "tune examples",
            asha["examples"],
            "examples",
            against=full["examples"],
            goal="<= 0.334",
            peer=what,
            gap="more trials were continued than planned",
        ),
        Result(
            "tune best",
            1000 * asha["best"]["value"],
            "AUC x 1000",
            against=1000 * full["best"]["value"],
            goal=">= 1",
            peer=what,
            gap="the best trial of all was stopped at a rung",
        ),
    ]


def _search(folder: str, method: str) -> Any:
    """Returns the result of a search of its own."""
    space = pathlib.Path(folder, "space.yaml")
    space.write_text(_SPACE)
    command = [sys.executable, "-m", "pipeline", "tune", "--config=flights", f"--space={space}"]
    command += [f"--storage={folder}", f"--method={method}", f"--run={method}"]
    command += [f"--trials={_TRIALS}", f"--parallel={min(2, os.cpu_count() or 1)}"]
    command += [f"--seed={_SEED}", *(f"--set={one}" for one in _SETTINGS)]
    subprocess.run(command, check=True)
    return strict_json.loads(pathlib.Path(folder, "tune", method, "tune.json").read_text())
