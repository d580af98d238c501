"""A table with a column of every kind, its records, and an Estimator trained on it in no time."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.records import manifest
from pipeline.runs.run_folder import RunFolder
from tests import record_sets
from trainer import experiment
from trainer.input import parsing
from trainer.input.dataset import RecordDataset

CONFIG = """
name: table
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns:
    dep time: {type: float32, min: 0, max: 2400, missing: allow}
    size: {type: float32, shape: [2]}
    day: {type: int64, min: 1, max: 31, missing: allow}
    carrier: {type: string, missing: allow, vocabulary: {}}
    pixels: {type: uint8, shape: [2, 2]}
    unused: {type: string}
    late: {type: int64, min: 0, max: 1}
  label: late
features:
  dep time: {steps: [{missing: {fill: 0, indicator: true}}, {z_score: {mean: 600, deviation: 300}}]}
  size: {steps: []}
  day: {steps: [{identity: {ids: 32}}]}
  carrier: {steps: [{vocabulary: {values: [AA, UA]}}]}
model: {name: linear}
train: {steps: 20, batch_size: 20}
eval: {metric: accuracy, batch_size: 40}
cluster: {strategy: none}
"""
ROWS = {"train": 200, "eval": 100}
CARRIERS = ("AA", "UA", "ZZ", None)


def feature(value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))


def example(**values) -> bytes:
    """Returns a record; what is `None` is missing."""
    features = {n.replace("_", " "): feature(v) for n, v in values.items() if v is not None}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def payloads(split: str) -> list[bytes]:
    """Returns the records of a split. Flights of AA in the afternoon are late."""
    rng = np.random.default_rng(len(split))
    made = []
    for n in range(ROWS[split]):
        carrier, time = CARRIERS[n % 4], float(rng.uniform(0, 2400))
        made.append(
            example(
                dep_time=None if n % 7 == 0 else [time],
                size=[float(x) for x in rng.normal(size=2)],
                day=None if n % 11 == 0 else int(rng.integers(1, 32)),
                carrier=carrier and carrier.encode(),
                pixels=bytes(rng.integers(0, 256, 4, np.uint8)),
                unused=b"x",
                late=int(carrier == "AA" and time > 1200),
            )
        )
    return made


class Table:
    """The records, and a run of the job on them; `made` gives the records of a split."""

    def __init__(
        self,
        folder: pathlib.Path,
        *overrides: str,
        text: str = CONFIG,
        made: Callable[[str], list[bytes]] = payloads,
    ) -> None:
        path = folder / "table.yaml"
        path.write_text(text)
        self.job: config.Config = config_file.load(str(path), list(overrides))
        self.run = RunFolder(str(folder / "runs" / "table"))
        self.contents: manifest.Manifest = record_sets.write(
            folder / "records" / "table",
            {split: [made(split)] for split in ROWS},
            block_records=16,
            columns=self.job.data.columns,
            label=self.job.data.label,
        )
        self._made = made
        self.records_path = str(folder / "records" / "table")
        self.records = RecordDataset(self.job, self.records_path, self.contents)
        self.estimator = experiment.build_estimator(
            self.job,
            self.run,
            topology.Task(topology.EVALUATOR, 0),
            transforms=self.records.transforms,
        )

    @property
    def checkpoint(self) -> str:
        """Trains, if that has not been done."""
        found = tf.train.latest_checkpoint(self.run.path)
        if found is None:
            self.trainable().train(self.input_fn, steps=self.job.train.steps)
        return tf.train.latest_checkpoint(self.run.path)

    def trainable(self):
        def model_fn(features, labels, mode):
            return self.estimator.model_fn(features, labels, mode, self.estimator.config)

        return tf.estimator.Estimator(model_fn, self.run.path)

    def input_fn(self):
        transforms = self.records.transforms
        batches = tf.data.Dataset.from_tensor_slices(self._made("train")).batch(20).repeat()
        return batches.map(
            lambda batch: transforms.examples(
                parsing.parse(batch, transforms.columns), training=True
            )
        )
