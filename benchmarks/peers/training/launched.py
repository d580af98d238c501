"""A run of this project through its own command, and what its chief has measured."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.peers import measure, workload
from benchmarks.peers.training import ours_hook


def train(given: dict[str, Any], *flags: str) -> dict[str, float]:
    """Trains the workload with `flags` and returns examples/s, processor seconds for 1,000
    examples, and the AUC on the test split."""
    storage = pathlib.Path(given["storage"])
    with tempfile.TemporaryDirectory(dir=storage / "peers") as folder:
        marks, run = pathlib.Path(folder, "marks.json"), pathlib.Path(folder, "run")
        run.mkdir()
        (run / "records").symlink_to(storage / "records")
        command = [sys.executable, "-m", "pipeline", "train", f"--config={workload.JOB}"]
        settings = [*workload.list_overrides(), f"train.steps={given['steps']}", *_list_measured()]
        command += [f"--storage={run}", *(f"--set={one}" for one in settings), *flags]
        environment = {
            **os.environ,
            "PYTHONPATH": os.getcwd(),
            measure.ROOT: os.environ.get(measure.ROOT, str(os.getpid())),
            ours_hook.FILE: str(marks),
            ours_hook.STEPS: f"{given['warm_up']},{given['steps'] - _BEFORE_THE_END}",
        }
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
        first, last = (measure.Mark(**one) for one in json.loads(marks.read_text()))
        [result] = run.glob("runs/*/RESULT.json")
        found = json.loads(result.read_text())
    return {
        **measure.compute_rates(first, last, given["batch_size"]),
        "auc": found["metrics"]["test"]["auc"],
    }


# The last step of a run may be reported as the one before.
_BEFORE_THE_END = 10


def _list_measured() -> list[str]:
    return ["train.hooks=[benchmarks.peers.training.ours_hook:Marks]"]
