"""Examples per second of every mode, against a bare session loop, and the time to the first step.

A bare loop is a `tf.compat.v1.Session` that trains the same network on batches that lie in memory:
no files, no summaries, no checkpoints. Ours reads records from disk and writes both.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import gradients_alone
from benchmarks.result import Result

_ROUNDS = 3
# Steps before the measured ones. The first checkpoint, at step 300 as in the shipped job, is always
# evaluated and exported, for which a single process stops training, and which an evaluator does on
# the same two cores beside it (10 seconds): it falls into the warm-up.
_WARM_UP = 480
_BARE_WARM_UP = 40
_STEPS = 300  # measured steps; one checkpoint falls into them
_BATCH = 128


@dataclasses.dataclass(frozen=True)
class Mode:
    """How to launch it, the batches that a step applies, in all and of a process, and the goal:
    examples/s as a share of the single process's."""

    flags: tuple[str, ...]
    per_step: int = 1
    of_a_process: int = 1
    goal: float = 0.97


# On 2 cores.
_SINGLE = Mode(("--strategy=none",))
_MODES = {
    "mirrored": Mode(("--strategy=mirrored", "--set=cluster.replicas=2"), 2, 2, 1.05),
    "multi_worker_mirrored": Mode(("--strategy=multi_worker_mirrored", "--workers=1"), 2, 1, 0.92),
    "parameter_server": Mode(("--strategy=parameter_server", "--workers=1", "--ps=1"), goal=0.88),
}


@dataclasses.dataclass(frozen=True)
class Launched:
    """Examples/s, seconds from the command to the first step, and processor seconds that the
    chief's process takes for a thousand of its own examples."""

    rate: float
    first_step: float
    cpu: float


def run(storage_root: str) -> list[Result]:
    """Measures in alternation, so that a change in the machine's speed hits all alike."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        bare, single = [], []
        modes: dict[str, list[Launched]] = {name: [] for name in _MODES}
        for number in range(_ROUNDS):
            bare.append(_measure_bare_loop())
            single.append(launch(folder, f"none-{number}", _SINGLE))
            for name, mode in _MODES.items():
                modes[name].append(launch(folder, f"{name}-{number}", mode))
    sums = gradients_alone.measure()
    return [
        _report_single(bare, single),
        _report_first_step(modes["parameter_server"], single),
        *(_report_mode(n, modes[n], single, sums=sums) for n in _MODES),
    ]


def _compute_median(launched: list[Launched], what: str) -> float:
    return statistics.median(getattr(one, what) for one in launched)


def _report_single(bare: list[float], single: list[Launched]) -> Result:
    return Result(
        name="train single process",
        value=_compute_median(single, "rate"),
        unit="examples/s",
        against=statistics.median(bare),
        peer="bare tf.compat.v1.Session loop, batches in memory, no files written",
        goal=f">= {_SINGLE.goal}",
        gap="reading, summaries, a checkpoint and its hooks share the two cores with the model",
    )


def _report_first_step(cluster: list[Launched], single: list[Launched]) -> Result:
    return Result(
        name="first step of 4 processes",
        value=_compute_median(cluster, "first_step"),
        unit="s",
        against=_compute_median(single, "first_step"),
        peer="a single process, from the command to its first step",
        goal="<= 1.5",
        gap="three graphs are built and two servers connected where one process builds one graph",
    )


def _report_mode(
    name: str, launched: list[Launched], single: list[Launched], *, sums: float
) -> Result:
    """`sums` are the processor seconds of `gradients_alone.measure`."""
    mode = _MODES[name]
    rate, ours, theirs = (
        _compute_median(launched, "rate"),
        _compute_median(launched, "cpu"),
        _compute_median(single, "cpu"),
    )
    return Result(
        name=f"train {name}",
        value=rate,
        unit="examples/s",
        against=_compute_median(single, "rate"),
        peer="a single process on the same cores",
        goal=f">= {mode.goal}",
        gap=f"1,000 examples take a process that trains {ours:.2f} processor seconds, in which "
        f"gradients are copied, where a single one takes {theirs:.2f}: {rate * ours / 1000:.2f} "
        "cores of 2 are busy with it"
        + (_describe_limit(mode, theirs, sums) if name == "multi_worker_mirrored" else ""),
    )


def _describe_limit(mode: Mode, single: float, sums: float) -> str:
    alone = sums * 1000 / (mode.per_step * _BATCH)
    return (
        f"; to sum gradients and nothing else takes {alone:.2f}, so that "
        f"{single / (single + alone):.2f} would be the most"
    )


def launch(folder: str, run: str, mode: Mode, *, warm_up: int = _WARM_UP) -> Launched:
    """Trains the CNN through the launcher.

    The times come from a hook of the chief: the rate is over the steps from `warm_up` to the end.
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
    command += [f"--storage={folder}", *(f"--set={s}" for s in settings), *mode.flags]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHON_STEP_TIMES": times}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    with open(times, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    steady = [row for row in rows if row["step"] >= warm_up]
    first, last = steady[0], steady[-1]
    rate = (last["step"] - first["step"]) * mode.per_step * _BATCH / (last["time"] - first["time"])
    own = (len(steady) - 1) * mode.of_a_process * _BATCH
    cpu = 1000 * (last["cpu"] - first["cpu"]) / own
    return Launched(rate, rows[0]["time"] - began, cpu)


def _measure_bare_loop() -> float:
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
