"""What it costs to know which records trained the model: in steps, in reading, in planning."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks import training
from benchmarks.result import Result

_ROUNDS = 5
_WARM_UP = 100  # steps; they end with the only checkpoint, so no evaluation falls between
# Config to the steps of one run: seconds of them, whatever the model.
_MODELS = {"mnist": 400, "mnist_mlp": 8000}
_BLOCKS, _WORKERS = 1_000_000, 1_000


def run(storage_root: str) -> list[Result]:
    """Measures both sides in turn, so that a change in the machine's speed hits both."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        steps = [_measure_steps(folder, config) for config in _MODELS]
        reading = _measure_in_process("reading", folder)
    return [*steps, _report_reading(reading), *_report_planning(_measure_in_process("planning"))]


def _measure_steps(folder: str, config: str) -> Result:
    rates: dict[str, list[float]] = {"step_times": [], "no_ledger": []}
    for number in range(_ROUNDS):
        # Whichever is first in one round is second in the next.
        for module in sorted(rates, reverse=bool(number % 2)):
            flags = (
                f"--config={config}",
                "--strategy=none",
                f"--set=train.steps={_MODELS[config]}",
                f"--set=train.save_steps={_MODELS[config]}",
                f"--set=train.hooks=[benchmarks.{module}:StepTimes]",
            )
            name = f"{config}-{module}-{number}".replace("_", "-")
            rates[module].append(
                training.launch(folder, name, training.Mode(flags), warm_up=_WARM_UP).rate
            )
    return Result(
        name=f"ledger {config}",
        value=statistics.median(rates["step_times"]),
        unit="examples/s",
        against=statistics.median(rates["no_ledger"]),
        goal=">= 0.98",
        peer="the same run, whose steps count nothing",
        gap="each step adds to three variables; a step as short as this one shows it",
    )


def _report_reading(measured: dict[str, float]) -> Result:
    return Result(
        name="ledger reading",
        value=measured["ours"],
        unit="examples/s",
        against=measured["bare"],
        goal=">= 0.95",
        peer="TFRecordDataset, batch, parse_example, prefetch, on the same files",
        gap="records are copied into a window and out of it again in another order",
    )


def _report_planning(measured: dict[str, float]) -> list[Result]:
    of = f"{_BLOCKS:,} blocks of 1,000 records, {_WORKERS:,} workers"
    return [
        Result(
            name=f"ledger planning, {unit}",
            value=measured[unit],
            unit=unit,
            against=limit,
            goal="<= 1.0",
            peer=f"the goal; {of}",
            gap=gap,
        )
        for unit, limit, gap in (
            ("s", 2.0, "an epoch's order is a permutation of all its blocks"),
            ("MB", 200.0, "manifest and orders hold numbers of each block"),
            ("MB in checkpoint", 8.0, "two counts a block"),
        )
    ]


def _measure_in_process(part: str, *arguments: str) -> dict[str, float]:
    """Measures one part in a process that has done nothing before."""
    command = [sys.executable, "-m", "benchmarks.ledger_parts", part, *arguments]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))
