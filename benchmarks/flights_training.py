"""Flights, wide & deep: what transforms, the Estimator around the graph, and the export cost.

- Loop: a hand-written `tf.compat.v1` loop over the records and the graph of the job, as they are
  usually written. It reads the files, as `make train` does, shuffles in a buffer, and parses and
  transforms batches beside the steps; it has no summaries, no checkpoints and no counts.
- Transforms: this loop against the same on records whose features were made before.
- In memory: the same two, but on batches that were read and parsed before.
- Training: `make train` in a single process against the loop.
- Latency: one row through the exported model against the same graph built by hand.
"""

from __future__ import annotations

import contextlib
import dataclasses
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
from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds
from pipeline.runs import run_folder

_ROUNDS = 3
# Steps before the measured ones. The first checkpoint, at step 1,000 as in the shipped job, is
# always evaluated and exported, for which a single process stops training: part of the warm-up.
_WARM_UP = 1100
_STEPS = 2000  # measured steps; two checkpoints fall into them
_BARE_WARM_UP = 100
_BARE_STEPS = 1200
_TURN = 200  # steps: of many, what was prefetched in the turns of others is little
_KEPT = 200  # batches in memory
_SHUFFLED = 10_000  # records in the buffer of the loop
_CALLS = 400
_JOB = "flights"
_LABEL = "label"


def run(storage_root: str) -> list[Result]:
    """Fetches the table if need be, and lets the sides take turns."""
    subprocess.run([sys.executable, "-m", "preprocessing.fetch", f"--config={_JOB}"], check=True)
    ours: list[tuple[float, float]] = []
    loops: list[list[float]] = []
    latency: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        for number in range(_ROUNDS):
            ours.append(_launch(folder, f"run-{number}"))
            loops.append(_run_child("loop", folder))
            latency.append(_run_child("latency", folder))
    exported, bare = (statistics.median(side) for side in zip(*latency, strict=True))
    loop, made, kept, kept_made, of_loop = (
        statistics.median(side) for side in zip(*loops, strict=True)
    )
    trained, of_ours = (statistics.median(side) for side in zip(*ours, strict=True))
    return [
        Result(
            "flights transforms",
            loop,
            "examples/s",
            against=made,
            goal=">= 0.95",
            peer="the same loop on records of features",
            gap="the transforms share cores with the model",
        ),
        Result(
            "flights transforms in memory",
            kept,
            "examples/s",
            against=kept_made,
            goal=">= 0.95",
            peer="the same loop on features in memory",
            gap="the transforms of a batch take 0.26 ms of processor time, next to steps of about "
            "2 ms; about half of it checks and reads dates",
        ),
        Result(
            "flights training",
            trained,
            "examples/s",
            against=loop,
            goal=">= 1",
            peer="a hand-written tf.compat.v1 loop, same graph, which parses each epoch anew",
            gap="summaries, checkpoints, counts, and hooks between steps; it takes "
            f"{of_ours:.1f} ms of processor time for 1,000 examples, the loop {of_loop:.1f} ms",
        ),
        Result(
            "flights latency",
            exported,
            "ms",
            against=bare,
            goal="<= 1.1",
            peer="one row through the same graph built by hand",
            gap="other work on the machine",
        ),
    ]


def _load_job() -> config.Config:
    return config_file.load(_JOB, ["cluster.strategy=none"])


def _launch(folder: str, run: str) -> tuple[float, float]:
    """Trains through the launcher and returns examples/s after warm-up, and the milliseconds of
    processor time for 1,000 examples."""
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
    first, *_, last = (row for row in rows if row["step"] >= _WARM_UP)
    examples = (last["step"] - first["step"]) * _load_job().train.batch_size
    return examples / (last["time"] - first["time"]), 1e6 * (last["cpu"] - first["cpu"]) / examples


def _run_child(side: str, folder: str) -> list[float]:
    """Runs one side in a process of its own and returns the figures it printed."""
    command = [sys.executable, "-m", "benchmarks.flights_training", side, folder]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]


class _Parts:
    """The job's records, features and model, as the trainer has them."""

    def __init__(self, folder: str) -> None:
        import tensorflow as tf

        from pipeline.cluster import topology
        from pipeline.records import manifest
        from trainer import models, optimizers
        from trainer.input.dataset import RecordDataset
        from trainer.monitoring import tf_logging

        tf_logging.configure_logging(verbose=False)
        self.job = _load_job()
        records_folder = builds.find_current(run_folder.records_folder(folder, self.job.name))
        self.records = RecordDataset(self.job, records_folder, manifest.read(records_folder))
        self.transforms = self.records.transforms
        how = optimizers.updates(self.job, topology.Task("chief", 0))
        params = {**self.job.model.params, "optimizer": how}
        found = models.build_model(
            self.job.model.name, params, tf.estimator.RunConfig(), transforms=self.transforms
        )
        self._model_fn, self._params = found.model_fn, params
        self.batch_size = self.job.train.batch_size

    def columns(self, rows: Any) -> Any:
        """Parses a batch of records."""
        from trainer.input import parsing

        return parsing.parse(rows, self.transforms.columns)

    def examples(self, columns: Any) -> Any:
        """Makes features and labels of a batch of columns."""
        return self.transforms.examples(columns, training=True)

    def spec(self, features: Any, labels: Any, mode: str) -> Any:
        """Builds the graph of the model."""
        import tensorflow as tf

        config = tf.estimator.RunConfig()
        return self._model_fn(features=features, labels=labels, mode=mode, config=config)


def _run_loops(folder: str) -> None:
    """Prints examples/s of four loops that take turns: on columns from files, on features from
    files, on columns in memory, and on features in memory. Then the milliseconds of processor time
    of the first for 1,000 examples."""
    parts = _Parts(folder)
    columns = _Source(list(parts.records.list_blocks("train").paths), parts.columns)
    made = _write_source(parts, columns, os.path.join(folder, "features.tfrecord"))
    sides = [
        _build_step(parts, lambda: columns.read_files(parts.batch_size, parts.examples)),
        _build_step(parts, lambda: made.read_files(parts.batch_size, _split_label)),
        _build_step(parts, lambda: columns.read_memory(parts.batch_size).map(parts.examples)),
        _build_step(parts, lambda: made.read_memory(parts.batch_size).map(_split_label)),
    ]
    seconds: list[list[float]] = [[] for _ in sides]
    busy: list[list[float]] = [[] for _ in sides]
    for _ in range(_BARE_STEPS // _TURN):
        for step, times, used in zip(sides, seconds, busy, strict=True):
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(_TURN):
                step()
            times.append(time.perf_counter() - began)
            used.append(time.process_time() - cpu)
    examples = _TURN * parts.batch_size
    of_loop = 1e6 * statistics.median(busy[0]) / examples
    print(*(examples / statistics.median(times) for times in seconds), of_loop)


@dataclasses.dataclass(frozen=True)
class _Source:
    """Records, and what parses a batch of them."""

    paths: list[str]
    parse: Callable[[Any], Any]

    def read_files(self, batch_size: int, make: Callable[[Any], Any]) -> Any:
        """Returns batches without end, read, shuffled and made beside the steps."""
        import tensorflow as tf

        return (
            tf.data.TFRecordDataset(self.paths)
            .shuffle(_SHUFFLED)
            .repeat()
            .batch(batch_size, drop_remainder=True)
            .map(lambda rows: make(self.parse(rows)), num_parallel_calls=tf.data.AUTOTUNE)
        )

    def read_memory(self, batch_size: int) -> Any:
        """Returns the same parsed batches again and again."""
        import tensorflow as tf

        rows = tf.data.TFRecordDataset(self.paths).batch(batch_size, drop_remainder=True)
        return rows.take(_KEPT).map(self.parse).cache().repeat()


def _write_source(parts: _Parts, columns: _Source, path: str) -> _Source:
    """Writes the features and labels of all records to a file."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session, tf.io.TFRecordWriter(path) as file:
        rows = tf.data.TFRecordDataset(columns.paths).batch(parts.batch_size)
        iterator = v1.data.make_initializable_iterator(
            rows.map(lambda rows: parts.examples(columns.parse(rows)))
        )
        features, label = iterator.get_next()
        tensors = {**features, _LABEL: label}
        spec = {n: tf.io.FixedLenFeature(x.shape[1:], x.dtype) for n, x in tensors.items()}
        session.run([v1.tables_initializer(), iterator.initializer])
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                batch = session.run(tensors)
                for values in zip(*batch.values(), strict=True):
                    file.write(_encode_example(dict(zip(batch, values, strict=True))))
    return _Source([path], lambda rows: tf.io.parse_example(rows, spec))


def _encode_example(values: dict[str, Any]) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    for name, value in values.items():
        feature = example.features.feature[name]
        kind = feature.int64_list if value.dtype.kind == "i" else feature.float_list
        kind.value.extend(value.ravel().tolist())
    return bytes(example.SerializeToString())


def _split_label(tensors: Any) -> Any:
    return {name: x for name, x in tensors.items() if name != _LABEL}, tensors[_LABEL]


def _build_step(parts: _Parts, batches: Callable[[], Any]) -> Callable[[], Any]:
    """Returns one step of training, after the first ones."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        iterator = v1.data.make_initializable_iterator(batches().prefetch(2))
        v1.train.create_global_step()
        spec = parts.spec(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        session = v1.Session()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(iterator.initializer)
    fetches = [spec.train_op, spec.loss]
    for _ in range(_KEPT + _BARE_WARM_UP):  # what is kept in memory is there then
        session.run(fetches)
    return lambda: session.run(fetches)


def _measure_latency(folder: str) -> None:
    """Prints milliseconds of one row through the export and through the graph built by hand."""
    import tensorflow as tf

    from pipeline.runs.run_folder import RunFolder
    from trainer.export import serving_graph

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
        receiver = serving_graph.build_serving_input_fn(parts.transforms)()
        spec = parts.spec(receiver.features, None, tf.estimator.ModeKeys.PREDICT)
        by_hand.run([v1.global_variables_initializer(), v1.tables_initializer()])
    placed = {receiver.receiver_tensors[name]: value for name, value in row.items()}
    answer = spec.predictions["probabilities"]
    print(
        *_measure_medians(lambda: of_export.run(fetch, feed), lambda: by_hand.run(answer, placed))
    )


def _measure_medians(*calls: Callable[[], Any]) -> list[float]:
    """Returns milliseconds of one of many calls of each, which take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(_CALLS):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
    return [1000 * statistics.median(taken[_CALLS // 4 :]) for taken in times]


if __name__ == "__main__":
    {"loop": _run_loops, "latency": _measure_latency}[sys.argv[1]](sys.argv[2])
