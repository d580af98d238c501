"""Flights, wide & deep: what transforms, the Estimator around the graph, and the export cost.

- Transforms: a loop that trains on columns and transforms them, against one whose input was
  transformed before.
- Training: `make train` in a single process against a hand-written `tf.compat.v1` loop over the
  same files and the same graph, which keeps all batches in memory and mixes nothing.
- Latency: one row through the exported model against the same graph built by hand.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.result import Result
from pipeline import config, config_file, run_folder

_ROUNDS = 3
# Steps before the measured ones. The first checkpoint, at step 1,000 as in the shipped job, is
# always evaluated and exported, for which a single process stops training: part of the warm-up.
_WARM_UP = 1100
_STEPS = 2000  # measured steps; two checkpoints fall into them
_BARE_WARM_UP = 100
_BARE_STEPS = 600
_TURN = 50  # steps
_KEPT = 200  # batches in memory
_CALLS = 400
_JOB = "flights"


def run(storage_root: str) -> list[Result]:
    """Fetches the table if need be, and lets the sides take turns."""
    subprocess.run([sys.executable, "-m", "preprocessing.fetch", f"--config={_JOB}"], check=True)
    loops, plain, ours = [], [], []
    latency: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        for number in range(_ROUNDS):
            ours.append(_launch(folder, f"run-{number}"))
            whole, before = _child("loop", folder)
            loops.append(whole)
            plain.append(before)
            latency.append(_child("latency", folder))
    exported, bare = (statistics.median(side) for side in zip(*latency, strict=True))
    loop = statistics.median(loops)
    transformed = statistics.median(plain)
    return [
        Result(
            *("flights transforms", loop, "examples/s", transformed, ">= 0.9"),
            *("the same loop on features made before", "the transforms share cores with the model"),
        ),
        Result(
            *("flights training", statistics.median(ours), "examples/s", loop, ">= 0.9"),
            *("a hand-written tf.compat.v1 loop, same graph", "summaries, checkpoints and counts"),
        ),
        Result(
            *("flights latency", exported, "ms", bare, "<= 1.1"),
            *("one row through the same graph built by hand", "other work on the machine"),
        ),
    ]


def _job() -> config.Config:
    return config_file.load(_JOB, ["cluster.strategy=none"])


def _launch(folder: str, run: str) -> float:
    """Trains through the launcher and returns examples/s after warm-up."""
    times = os.path.join(folder, f"{run}.times")
    settings = [
        f"train.steps={_WARM_UP + _STEPS}",
        "eval.throttle_seconds=100000",
        "train.hooks=[benchmarks.step_times:StepTimes]",
    ]
    command = [sys.executable, "-m", "pipeline.launch", f"--config={_JOB}", f"--run={run}"]
    command += [f"--storage={folder}", "--strategy=none", *(f"--set={s}" for s in settings)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHON_STEP_TIMES": times}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    with open(times, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    steady = [(row["step"], row["time"]) for row in rows if row["step"] >= _WARM_UP]
    steps, seconds = steady[-1][0] - steady[0][0], steady[-1][1] - steady[0][1]
    return float(steps * _job().train.batch_size / seconds)


def _child(side: str, folder: str) -> list[float]:
    """Runs one side in a process of its own and returns the figures it printed."""
    command = [sys.executable, "-m", "benchmarks.flights_training", side, folder]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]


class _Parts:
    """The job's records, features and model, as the trainer has them."""

    def __init__(self, folder: str) -> None:
        import tensorflow as tf

        from pipeline import manifest, topology
        from trainer import models, optimizers
        from trainer.input import Records

        self.job = _job()
        records_folder = run_folder.records_folder(folder, self.job.name)
        self.records = Records(self.job, records_folder, manifest.read(records_folder))
        self.transforms = self.records.transforms
        how = optimizers.updates(self.job, topology.Task("chief", 0))
        params = {**self.job.model.params, "optimizer": how}
        found = models.model(self.job.model.name, params, tf.estimator.RunConfig(), self.transforms)
        self._model_fn, self._params = found.model_fn, params

    def spec(self, features: Any, labels: Any, mode: str) -> Any:
        """Builds the graph of the model."""
        import tensorflow as tf

        config = tf.estimator.RunConfig()
        return self._model_fn(features=features, labels=labels, mode=mode, config=config)


def _loop(folder: str) -> None:
    """Prints examples/s with transforms and without, of two sessions that take turns."""
    parts = _Parts(folder)
    sides = [_steps(parts, transformed=transformed) for transformed in (False, True)]
    seconds: list[list[float]] = [[], []]
    for _ in range(_BARE_STEPS // _TURN):
        for step, times in zip(sides, seconds, strict=True):
            began = time.perf_counter()
            for _ in range(_TURN):
                step()
            times.append(time.perf_counter() - began)
    print(*(_TURN * parts.job.train.batch_size / statistics.median(times) for times in seconds))


def _steps(parts: _Parts, *, transformed: bool) -> Callable[[], Any]:
    """Returns one step of training, after the first ones."""
    import tensorflow as tf

    from trainer import features

    v1, batch = tf.compat.v1, parts.job.train.batch_size
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        data = (
            tf.data.TFRecordDataset(list(parts.records.blocks("train").paths))
            .batch(batch, drop_remainder=True)
            .take(_KEPT)
            .map(lambda rows: features.parse(rows, parts.transforms.columns))
        )

        def make(rows: Any) -> Any:
            return parts.transforms.examples(rows, training=True)

        data = data.map(make).cache().repeat() if transformed else data.cache().repeat().map(make)
        iterator = v1.data.make_initializable_iterator(data.prefetch(2))
        v1.train.create_global_step()
        spec = parts.spec(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        session = v1.Session()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(iterator.initializer)
    fetches = [spec.train_op, spec.loss]
    for _ in range(_KEPT + _BARE_WARM_UP):  # all batches are in memory then
        session.run(fetches)
    return lambda: session.run(fetches)


def _latency(folder: str) -> None:
    """Prints milliseconds of one row through the export and through the graph built by hand."""
    import tensorflow as tf

    from pipeline.run_folder import RunFolder
    from trainer import exporters

    v1 = tf.compat.v1
    parts = _Parts(folder)
    newest = sorted(os.listdir(os.path.join(folder, "runs")))[-1]
    run = RunFolder(os.path.join(folder, "runs", newest))
    export = os.path.join(run.path, (run.read(run_folder.RESULT) or {})["exports"]["final"])
    row = {
        name: [b"EWR" if column.type == "string" else 5]
        for name, column in parts.transforms.serving_columns.items()
    }
    with tf.Graph().as_default():
        of_export = v1.Session()
        loaded = v1.saved_model.load(of_export, ["serve"], export).signature_def["serving_default"]
    feed = {loaded.inputs[name].name: value for name, value in row.items()}
    fetch = loaded.outputs["probabilities"].name
    with tf.Graph().as_default():
        by_hand = v1.Session()
        receiver = exporters.serving_input_fn(parts.transforms)()
        spec = parts.spec(receiver.features, None, tf.estimator.ModeKeys.PREDICT)
        by_hand.run([v1.global_variables_initializer(), v1.tables_initializer()])
    placed = {receiver.receiver_tensors[name]: value for name, value in row.items()}
    answer = spec.predictions["probabilities"]
    print(*_medians(lambda: of_export.run(fetch, feed), lambda: by_hand.run(answer, placed)))


def _medians(*calls: Callable[[], Any]) -> list[float]:
    """Returns milliseconds of one of many calls of each, which take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(_CALLS):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
    return [1000 * statistics.median(taken[_CALLS // 4 :]) for taken in times]


if __name__ == "__main__":
    {"loop": _loop, "latency": _latency}[sys.argv[1]](sys.argv[2])
