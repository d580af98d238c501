"""Examples per second of every mode, against a bare session loop, and the time to the first step.

A bare loop is a `tf.compat.v1.Session` that trains the same network on batches that lie in memory:
no files, no summaries, no checkpoints. Ours reads records from disk and writes both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.result import Result

_ROUNDS = 3
# Steps before the measured ones. The first checkpoint, at step 300 as in the shipped job, is always
# evaluated and exported, for which a single process stops training, and which an evaluator does on
# the same two cores beside it (10 seconds): it falls into the warm-up.
_WARM_UP = 480
_BARE_WARM_UP = 40
_STEPS = 300  # measured steps; one checkpoint falls into them
_BATCH = 128

# Processes on 2 cores; the goal is examples/s as a share of the single process's.
_MODES = {
    "mirrored": (["--set=cluster.strategy=mirrored", "--set=cluster.replicas=2"], 2, 1.05),
    "multi_worker_mirrored": (["--strategy=multi_worker_mirrored", "--workers=1"], 2, 0.92),
    "parameter_server": (["--strategy=parameter_server", "--workers=1", "--ps=1"], 1, 0.88),
}


def run(storage_root: str) -> list[Result]:
    """Measures in alternation, so that a change in the machine's speed hits all alike."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        bare, single = [], []
        modes: dict[str, list[float]] = {name: [] for name in _MODES}
        starts: dict[str, list[float]] = {"none": [], "parameter_server": []}
        for number in range(_ROUNDS):
            bare.append(_bare_loop())
            rate, start = launch(folder, f"none-{number}", ["--strategy=none"], 1)
            single.append(rate)
            starts["none"].append(start)
            for name, (flags, share, _) in _MODES.items():
                rate, start = launch(folder, f"{name}-{number}", flags, share)
                modes[name].append(rate)
                starts.setdefault(name, []).append(start)
    return [
        _single(bare, single),
        _first_step(starts),
        *(_mode(n, modes[n], single) for n in _MODES),
    ]


def _single(bare: list[float], single: list[float]) -> Result:
    return Result(
        name="train single process",
        value=statistics.median(single),
        unit="examples/s",
        against=statistics.median(bare),
        peer="bare tf.compat.v1.Session loop, batches in memory, no files written",
        goal=">= 0.97",
        gap="reading, summaries, a checkpoint and its hooks share the two cores with the model",
    )


def _first_step(starts: dict[str, list[float]]) -> Result:
    return Result(
        name="first step of 4 processes",
        value=statistics.median(starts["parameter_server"]),
        unit="s",
        against=statistics.median(starts["none"]),
        peer="a single process, from the command to its first step",
        goal="<= 1.5",
        gap="three graphs are built and two servers connected where one process builds one graph",
    )


def _mode(name: str, rates: list[float], single: list[float]) -> Result:
    return Result(
        name=f"train {name}",
        value=statistics.median(rates),
        unit="examples/s",
        against=statistics.median(single),
        peer="a single process on the same cores",
        goal=f">= {_MODES[name][2]}",
        gap="parameters and gradients are copied between processes that share two cores",
    )


def launch(
    folder: str, run: str, flags: list[str], per_step: int, warm_up: int = _WARM_UP
) -> tuple[float, float]:
    """Trains the CNN through the launcher; returns examples/s and seconds to the first step.

    `per_step` is how many batches one global step applies. The times come from a hook of every
    training process: the rate is over the steps between `warm_up` and end.
    """
    times = os.path.join(folder, f"{run}.times")
    began = time.time()
    command = [sys.executable, "-m", "pipeline.launch", "--config=mnist", f"--run={run}"]
    settings = [
        f"train.steps={warm_up + _STEPS}",
        f"train.batch_size={_BATCH}",
        # No evaluation after the first: training is measured.
        "eval.throttle_seconds=100000",
        "train.hooks=[benchmarks.step_times:StepTimes]",
    ]
    command += [f"--storage={folder}", *(f"--set={s}" for s in settings), *flags]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHON_STEP_TIMES": times}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    with open(times, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    chief = [(row["step"], row["time"]) for row in rows]
    steady = [(step, at) for step, at in chief if step >= warm_up]
    steps, seconds = steady[-1][0] - steady[0][0], steady[-1][1] - steady[0][1]
    return steps * per_step * _BATCH / seconds, chief[0][1] - began


def _bare_loop() -> float:
    """Returns the examples/s of the bare loop, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.bare_loop",
        str(_BARE_WARM_UP),
        str(_STEPS),
        str(_BATCH),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)
