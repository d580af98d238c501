"""The field's reference experiments, on this machine, with a page of plots.

- One process, towers in one graph, mirrored copies and servers with workers: the CNN on MNIST.
- Matrix products by size and data type.
- Workers by servers.
- Seconds an epoch of images takes with one replica and two, at a fixed and at a scaled batch.
- The study of asynchronous and synchronous training: accuracy by examples and by seconds, for all
  strategies at equal examples, with three seeds.

Takes about 25 minutes on 2 idle cores. Each cell writes a line to <storage>/reference.jsonl; called
again, it goes on with the cells that have none. The page is <storage>/reference.html.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import cells, reference_page
from benchmarks.cells import Cell, Line
from benchmarks.result import Result
from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from pipeline.launchers import products
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from pipeline.storage import strict_json

ROUNDS, SEEDS = 2, (1, 2, 3)
TRAINERS, SERVERS = (1, 2, 3, 4), (1, 2)
STUDY_EPOCHS, STUDY_POINTS = 0.45, 6
IMAGES = 900
_BATCH, _STEPS, _IMAGE_STEPS = 128, 200, 60
_MNIST = 57_000  # records that train
_RUN, _SHOWN = "cell", 2000
# No checkpoint before the end, and so no evaluation beside the steps that are measured.
_UNDISTURBED = ("train.save_steps=1000000", "eval.throttle_seconds=100000")
_TWO = "cluster.replicas=2"
# By what the page calls it: the strategy, and what it needs for two devices.
DEVICES: Mapping[str, tuple[str, ...]] = {
    "one core": ("cluster.strategy=none",),
    "one process": ("cluster.strategy=none",),
    "central_storage": ("cluster.strategy=central_storage", _TWO),
    "mirrored": ("cluster.strategy=mirrored", _TWO),
    "parameter_server": ("cluster.strategy=parameter_server",),
}
# Of a batch of 32 for one replica: how it is said for two.
BATCHES: Mapping[str, tuple[str, ...]] = {
    "1 replica, batch 32": DEVICES["one process"],
    "2 replicas, fixed batch 32": (*DEVICES["mirrored"], "train.batch_size_is=global"),
    "2 replicas, scaled batch 64": DEVICES["mirrored"],
}


def run(storage_root: str) -> list[Result]:
    """Measures what is not measured yet, and writes the page."""
    root = pathlib.Path(storage_root)
    bench = Bench(root / "reference")
    try:
        found = cells.measure(list(plan(bench)), root / "reference.jsonl")
    finally:
        shutil.rmtree(bench.folder / "runs", ignore_errors=True)
    path = reference_page.write(root, found)
    print(f"page in {path}")
    return list_results(found)


def plan(bench: Bench) -> Iterator[Cell]:
    """Yields all cells. Rounds and seeds are outermost, so that a change in the machine's speed
    hits all alike."""
    yield Cell("products", _list_products, seconds=10)
    for number in range(ROUNDS):
        for name in DEVICES:
            one_core = name == "one core"
            measure = functools.partial(bench.measure_throughput, DEVICES[name], one_core=one_core)
            yield Cell(f"devices, {name}, round {number + 1}", measure, seconds=20)
    for trainers in TRAINERS:
        for servers in SERVERS:
            counts = (f"cluster.workers={trainers - 1}", f"cluster.ps={servers}")
            settings = (*DEVICES["parameter_server"], *counts)
            measure = functools.partial(bench.measure_throughput, settings)
            yield Cell(f"servers, {trainers} trainers, {servers} ps", measure, seconds=25)
    for number in range(ROUNDS):
        for name, settings in BATCHES.items():
            measure = functools.partial(bench.measure_epoch, settings)
            yield Cell(f"images, {name}, round {number + 1}", measure, seconds=35)
    for seed in SEEDS:
        for strategy in strategy_table.STRATEGIES:
            measure = functools.partial(bench.run_study, strategy, seed)
            yield Cell(f"study, {strategy}, seed {seed}", measure, seconds=35)


def list_results(found: Mapping[str, Line]) -> list[Result]:
    """Returns the figures that something was published of."""
    rates = compute_device_rates(found)
    share = {name: 100 * rates[name] / (2 * rates["one core"]) for name in DEVICES}
    last = {
        mode: statistics.mean(list_last_accuracies(found, mode))
        for mode in strategy_table.STRATEGIES
    }
    peer, gap = "published for 2 devices", "copies of gradients share the two cores with the model"
    return [
        Result(
            f"{name} of 2 devices", share[name], "% of ideal", against=a, goal=">= 1", peer=peer,
            gap=gap,
        )
        for name, a in (("central_storage", 80.0), ("parameter_server", 50.0))
    ] + [
        Result(
            "asynchronous accuracy",
            100 * last["parameter_server"],
            "%",
            against=100 * last["parameter_server_sync"],
            goal=">= 0.99",
            peer="parameter_server_sync, at equal examples",
            gap="stale gradients",
        )
    ]  # fmt: skip


def compute_device_rates(found: Mapping[str, Line]) -> dict[str, float]:
    """Returns the examples a second of each way to use two devices, the median of the rounds."""
    return {
        name: statistics.median(
            found[f"devices, {name}, round {number + 1}"]["result"]["rate"]
            for number in range(ROUNDS)
        )
        for name in DEVICES
    }


def list_last_accuracies(found: Mapping[str, Line], mode: str) -> list[float]:
    """Returns the accuracy at the end of the study, by seed."""
    return [found[f"study, {mode}, seed {seed}"]["result"]["accuracy"][-1] for seed in SEEDS]


def _list_products() -> dict[str, Any]:
    made = products.measure(products.devices(), products.SIZES)
    return {"products": [dataclasses.asdict(one) for one in made]}


def list_study_settings(strategy: str, seed: int) -> list[str]:
    """Returns what the study sets for a strategy: two replicas in all, in one process or in two,
    if it can have two."""
    given = [
        f"cluster.strategy={strategy}", f"train.seed={seed}", f"train.batch_size={_BATCH}",
        "train.optimizer.schedule.name=constant", "eval.throttle_seconds=100000",
        f"train.keep_checkpoints={STUDY_POINTS + 3}", "train.steps=null",
        f"train.epochs={STUDY_EPOCHS}",
    ]  # fmt: skip
    return [*given, _TWO] if strategy_table.STRATEGIES[strategy].replicates else given


class Bench:
    """Runs jobs in a folder that has their records."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def measure_throughput(
        self, settings: Sequence[str], *, one_core: bool = False
    ) -> dict[str, float]:
        """Returns the examples/s of the CNN in the second half of its steps, and the seconds to
        the first step."""
        given = (f"train.steps={_STEPS}", f"train.batch_size={_BATCH}", *_UNDISTURBED, *settings)
        trained = self._train("mnist", given, one_core=one_core)
        return {"rate": trained.rate(), "first_step": trained.first_step}

    def measure_epoch(self, settings: Sequence[str]) -> dict[str, float]:
        """Returns the seconds that an epoch of images takes."""
        folder = self.folder / "images"
        if not folder.exists():
            drawn = [sys.executable, "-m", "tests.e2e.shapes", str(folder), str(IMAGES)]
            subprocess.run(drawn, check=True)
        given = (f"data.inputs.train.images={folder}", f"train.steps={_IMAGE_STEPS}", *_UNDISTURBED)
        trained = self._train("images", (*given, *settings))
        build = builds.find_current(run_folder.records_folder(str(self.folder), "images"))
        records = manifest.read(build).split("train").records
        rate = trained.rate()
        return {"rate": rate, "epoch": records / rate, "first_step": trained.first_step}

    def run_study(self, strategy: str, seed: int) -> dict[str, list[float]]:
        """Trains for a part of an epoch, saves now and then, and evaluates what was saved when
        training is over. Returns accuracy, examples and seconds since the first step by save."""
        given = list_study_settings(strategy, seed)
        per_step = topology.examples_per_step(config_file.load("mnist", given))
        every = round(STUDY_EPOCHS * _MNIST / per_step / STUDY_POINTS)
        trained = self._train("mnist", (*given, f"train.save_steps={every}"))
        command = ["trainer.evaluate", f"--storage={self.folder}", f"--run={_RUN}", "--split=test"]
        self._call([*command, "--checkpoint=all"])
        found = strict_json.loads((self._run / "evaluation.json").read_text())
        points = sorted((p["step"], p["metrics"]["accuracy"]) for p in found if p["step"])
        return {
            "accuracy": [round(accuracy, 5) for _, accuracy in points],
            "examples": [step * per_step for step, _ in points],
            "seconds": [round(trained.seconds(step), 2) for step, _ in points],
        }

    @property
    def _run(self) -> pathlib.Path:
        return self.folder / "runs" / _RUN

    def _train(self, name: str, settings: Sequence[str], *, one_core: bool = False) -> _Trained:
        shutil.rmtree(self._run, ignore_errors=True)
        times = self.folder / "times"
        began = time.time()
        given = [*settings, "train.hooks=[benchmarks.step_times:StepTimes]"]
        command = ["pipeline.launch", f"--config={name}", f"--run={_RUN}"]
        command += [f"--storage={self.folder}", *(f"--set={one}" for one in given)]
        self._call(command, one_core=one_core, times=times)
        rows = [json.loads(line) for line in times.read_text().splitlines()]
        job = config_file.load(str(self._run / "config.yaml"))
        return _Trained(rows, topology.examples_per_step(job), rows[0]["time"] - began)

    def _call(
        self, words: Sequence[str], *, one_core: bool = False, times: pathlib.Path | None = None
    ) -> None:
        """Runs a module. Shows the end of its output if it fails."""
        environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment |= {"PYTHON_STEP_TIMES": str(times)} if times else {}
        command = [sys.executable, "-m", *words]
        if one_core:
            core = min(os.sched_getaffinity(0))
            command = ["taskset", "--cpu-list", str(core), *command]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.stderr.write(done.stdout[-_SHOWN:] + done.stderr[-_SHOWN:])
            done.check_returncode()


@dataclasses.dataclass(frozen=True)
class _Trained:
    """The chief's steps with their times, and the seconds to the first one."""

    rows: Sequence[Mapping[str, float]]
    examples_per_step: int
    first_step: float

    def rate(self) -> float:
        """Returns the examples/s of all processes in the second half of the steps."""
        first, last = self.rows[len(self.rows) // 2], self.rows[-1]
        steps = last["step"] - first["step"]
        return steps * self.examples_per_step / (last["time"] - first["time"])

    def seconds(self, step: int) -> float:
        """Returns how long after the first step of the chief a step was made."""
        steps, times = ([row[key] for row in self.rows] for key in ("step", "time"))
        return float(np.interp(step, steps, times)) - times[0]
