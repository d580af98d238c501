"""Small tables, and finished runs with a published model of them, as the commands make them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.records import builds
from pipeline.runs import exported, run_folder
from pipeline.runs.run_folder import RunFolder
from preprocessing.build import job as preprocessing
from serving.batch import inputs, predictions
from serving.rest import session
from serving.rest.rest_server import Served
from trainer import experiment
from trainer.export import exporters
from trainer.input.dataset import RecordDataset

CONFIG = """
name: {name}
data:
  source: csv
  inputs: {{train: {{files: rows.csv}}}}
  key: [id]
  columns:
    id: {{type: int64}}
    delay: {{type: float32, min: -60, max: 600, missing: allow}}
    origin: {{type: string, allowed: [EWR, JFK, LGA]}}
    carrier: {{type: string, missing: allow, max_length: 2, vocabulary: {{}}}}
    hour: {{type: int64, min: 0, max: 23, missing: drop}}
    pilot: {{type: string, sensitive: true, missing: allow}}
    note: {{type: string, missing: allow}}
    arrival: {label}
  label: arrival
  split: {{eval: 0.2, test: 0.2}}
  shards: {{train: 2}}
  block_records: 16
label: {{vocabulary: {vocabulary}}}
features:
  delay: {{steps: [{{missing: {{fill: 0, indicator: true}}}}, z_score]}}
  origin: {{steps: [vocabulary]}}
  carrier: {{steps: [vocabulary]}}
  hour: {{steps: [{{identity: {{ids: 25}}}}]}}
model:
  name: linear
  params: {params}
train: {{steps: 60, batch_size: 32, optimizer: {{name: adam, learning_rate: 0.1}}}}
eval: {{metric: {metric}, batch_size: 64}}
"""
CLASSIFIER = {
    "name": "punctual",
    "label": "{type: string, vocabulary: {}}",
    "vocabulary": "true",
    "params": "{classes: 3}",
    "metric": "accuracy",
}
REGRESSOR = {
    "name": "minutes",
    "label": "{type: float32, min: -100, max: 1000}",
    "vocabulary": "false",
    "params": "{task: regression}",
    "metric": "average_loss",
}
NAMES = ("id", "delay", "origin", "carrier", "hour", "pilot", "note", "arrival")
ROWS = 400


def rows(kind: dict[str, str], count: int = ROWS, seed: int = 0) -> list[dict[str, Any]]:
    """Returns rows of the table; what has no value is `None`."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        delay = None if number % 9 == 0 else round(float(rng.normal(10, 20)), 1)
        late = 0 if delay is None else max(-60.0, delay)
        name = "late" if late > 15 else "early" if late < 0 else "on time"
        made.append(
            {
                "id": 1000 + number,
                "delay": delay if delay is None else late,
                "origin": ("EWR", "JFK", "LGA")[number % 3],
                "carrier": (None, "AA", "UA", "DL")[number % 4],
                "hour": int(rng.integers(0, 24)),
                "pilot": f"p{number}",
                "note": None,
                "arrival": name if kind is CLASSIFIER else round(late + number % 3, 1),
            }
        )
    return made


def text(found: list[dict[str, Any]], without: tuple[str, ...] = ()) -> str:
    """Returns rows as CSV."""
    names = [name for name in NAMES if name not in without]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row[n] is None else row[n] for n in names] for row in found])
    return file.getvalue()


@dataclasses.dataclass(frozen=True)
class Published:
    """A finished run and all it needs."""

    storage: pathlib.Path
    job: config.Config
    run: RunFolder
    records: RecordDataset
    estimator: Any

    @property
    def export(self) -> exported.Export:
        return exported.find(self.run, "final")

    @property
    def csv(self) -> str:
        return str(self.storage / "rows.csv")

    def predicted(self, split: str = "test") -> dict[str, np.ndarray]:
        """Returns what `Estimator.predict` says of a split, in the order of its records."""
        batches = list(
            self.estimator.predict(
                self.records.build_eval_input_fn(split), yield_single_examples=False
            )
        )
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    def served(self) -> Served:
        """Returns the model as `make serve` has it."""
        return Served(self.job.name, self.export, session.build_rules(self.job))

    def predicted_table(self, path: str) -> list[dict[str, str]]:
        """Returns what `make predict` writes for raw rows."""
        asked = inputs.open_files(path, self.job, classes=self.export.classes)
        where = predictions.choose_output(self.run, self.export, path, path=None, kind="csv")
        predictions.predict(self.job, self.export, asked, output=where)
        with open(where.path, newline="") as file:
            return list(csv.DictReader(file))


def publish(folder: pathlib.Path, kind: dict[str, str]) -> Published:
    """Preprocesses, trains for a moment, and publishes the final and the best model."""
    return publish_table(folder, text(rows(kind)), CONFIG.format(**kind), best=True)


def publish_table(
    folder: pathlib.Path, table: str, config_text: str, *, best: bool = False
) -> Published:
    """Does the same for the CSV `table`, which the config calls `rows.csv`; without the best model
    unless asked for it, because checking an export takes seconds."""
    (folder / "rows.csv").write_text(table)
    (folder / "job.yaml").write_text(config_text)
    job = config_file.load(str(folder / "job.yaml"))
    contents = preprocessing.run(job, str(folder))
    source = RecordDataset(
        job, builds.find_current(run_folder.records_folder(str(folder), job.name)), contents
    )
    run = RunFolder(run_folder.run_folder(str(folder), f"{job.name}-1"))
    task = topology.Task(topology.EVALUATOR, 0)
    estimator = experiment.build_estimator(job, run, task, transforms=source.transforms)
    trained = tf.estimator.Estimator(
        lambda features, labels, mode: estimator.model_fn(features, labels, mode, estimator.config),
        run.path,
    )
    trained.train(lambda: source.build_eval_input_fn("train")().repeat(), steps=60)
    checkpoint = tf.train.latest_checkpoint(run.path)
    pathlib.Path(run.config_path).write_text(config_file.dump(job))
    publisher = exporters.Publisher(job, run, source)
    final = publisher.publish(estimator, "final", checkpoint, step=60, metrics={})
    if best:
        second = publisher.publish(estimator, "best", checkpoint, step=40, metrics={})
        best_on_eval = {"step": 40, "metric": "average_loss", "value": 0.5}
        published = {"export": second.path, "sha256": second.sha256}
        run.write(run_folder.BEST, {**best_on_eval, **published})
    run.write(
        run_folder.RESULT,
        {
            "final_step": 60,
            "exports": {"final": final.path},
            "sha256": {"final": final.sha256},
            "metrics": {"eval": {"average_loss": 0.625}},
        },
    )
    return Published(folder, job, run, source, estimator)


def format_json_lines(found: list[dict[str, Any]]) -> str:
    """Returns rows as JSON lines, without the members that have no value."""
    return "".join(
        json.dumps({n: v for n, v in row.items() if v is not None}) + "\n" for row in found
    )
