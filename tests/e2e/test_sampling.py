"""A sample of the negatives, from a table to an export, judged by the probabilities of the
generator, which are known for each row."""

from __future__ import annotations

import pathlib

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.records import manifest
from pipeline.runs.run_folder import RunFolder
from preprocessing.build import job as preprocessing
from preprocessing.sample_data import ranking
from tests import reading
from trainer import experiment
from trainer.export import exporters
from trainer.input import parsing
from trainer.input.dataset import RecordDataset
from trainer.migration import migration

ROWS, KEEP = 40_000, 0.1
# Standard errors that an estimate may be off: by chance it is in one of two million cases.
FAR = 5
CONFIG = """
name: sampled
data:
  source: parquet
  inputs: {train: {files: rows.parquet}}
  columns:
    row: {type: int64}
    label: {type: int64, allowed: [0, 1]}
    logit: {type: float32}
  key: [row]
  label: label
  sample: {column: label, value: 0, keep: 0.1}
  split: {eval: 0.3}
features:
  logit: {}
model: {name: linear}
train:
  steps: 120
  batch_size: 3000
  optimizer: {name: adam, learning_rate: 0.1, schedule: {name: cosine}}
eval: {metric: log_loss, higher_is_better: false, batch_size: 4000}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds the table and its records, which are the same however they are corrected."""
    folder = tmp_path_factory.mktemp("sampling")
    table = ranking.table(0, ROWS, seed=3, scale=0.001)
    chance = table["p_click"]
    logit = pc.ln(pc.divide(chance, pc.subtract(1.0, chance))).cast("float32")
    rows = table.select(["row", "label"]).append_column("logit", logit)
    pq.write_table(rows, folder / "rows.parquet")
    (folder / "sampled.yaml").write_text(CONFIG)
    made = preprocessing.run(config_file.load(str(folder / "sampled.yaml"), []), str(folder))
    assert made.sampled.dropped > 10_000
    return folder


class _Trained:
    """A model of the records of `folder`, and what it says of the eval split."""

    def __init__(self, folder: pathlib.Path, correct: str) -> None:
        setting = [f"data.sample.correct={correct}"]
        self.job = config_file.load(str(folder / "sampled.yaml"), setting)
        self.run = RunFolder(str(folder / "runs" / correct))
        [found] = folder.glob("records/sampled/*/manifest.json")
        self.path = str(found.parent)
        self.records = RecordDataset(self.job, self.path, manifest.read(self.path))
        task = topology.Task(topology.EVALUATOR, 0)
        self.estimator = experiment.build_estimator(
            self.job, self.run, task, transforms=self.records.transforms
        )
        steps = self.job.train.steps
        built = tf.estimator.Estimator(
            lambda features, labels, mode: self.estimator.model_fn(
                features, labels, mode, self.estimator.config
            ),
            self.run.path,
        )
        built.train(lambda: reading.train_dataset(self.records), steps=steps)
        pathlib.Path(self.run.config_path).write_text(config_file.dump(self.job))

    @property
    def checkpoint(self) -> str:
        return tf.train.latest_checkpoint(self.run.path)

    def parameters(self) -> np.ndarray:
        """Returns bias and weight as they are served."""
        reader = tf.train.load_checkpoint(self.checkpoint)
        found = [
            float(reader.get_tensor(f"linear/linear_model/{name}").ravel()[0])
            for name in ("bias_weights", "logit/weights")
        ]
        offset = np.log(KEEP) if self.job.data.sample.correct == "logits" else 0.0
        return np.array(found) + np.array([offset, 0.0])

    def columns(self, split: str) -> dict[str, np.ndarray]:
        batches = [
            {name: x.numpy() for name, x in parsing.parse(b, self.job.data.columns).items()}
            for b in self.records.read_serialized(split).rebatch(5000)
        ]
        return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}

    def served(self) -> np.ndarray:
        found = self.estimator.predict(self.records.build_eval_input_fn("eval"))
        return np.array([row["probabilities"][1] for row in found])

    def covariance(self) -> np.ndarray:
        """Returns that of bias and weight about 0 and 1, the truth, by Huber's sandwich (1967)."""
        train, correct = self.columns("train"), self.job.data.sample.correct
        x = np.stack([np.ones(len(train["logit"])), train["logit"]], axis=1)
        shift = -np.log(KEEP) if correct == "logits" else 0.0
        p = 1 / (1 + np.exp(-(train["logit"] + shift)))
        weight = np.where(train["label"] == 0, 1 / KEEP, 1.0) if correct == "weights" else 1.0
        bread = np.linalg.inv((x * (weight * p * (1 - p))[:, None]).T @ x)
        score = x * (weight * (train["label"] - p))[:, None]
        return bread @ (score.T @ score) @ bread


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("correct", ["weights", "logits"])
def test_probabilities_are_those_of_all_rows(folder, correct):
    model = _Trained(folder, correct)
    found, errors_of = model.parameters(), np.sqrt(np.diag(model.covariance()))
    # The logit of each row is known, and the one feature: the best model gives it back.
    np.testing.assert_array_less(np.abs(found - [0.0, 1.0]), FAR * errors_of)
    served, rows = model.served(), model.columns("eval")
    truth = 1 / (1 + np.exp(-rows["logit"]))
    slope = np.array([np.mean(truth * (1 - truth) * x) for x in (1.0, rows["logit"])])
    of_model = slope @ model.covariance() @ slope
    of_labels = np.mean(truth * (1 - truth)) / len(truth)
    assert abs(served.mean() - truth.mean()) < FAR * np.sqrt(of_model)
    figure = model.estimator.evaluate(model.records.build_eval_input_fn("eval"))["calibration"]
    far = FAR * np.sqrt(of_model + of_labels) / truth.mean()
    print(f"calibration of {correct}: {figure:.4f}, at most {far:.4f} from 1 by chance")
    assert abs(figure - 1) < far < 0.15
    # The export passes the parity check, and is what NumPy says of the parameters.
    bias, weight = found
    np.testing.assert_allclose(
        served, 1 / (1 + np.exp(-(bias + weight * rows["logit"]))), atol=2e-6
    )
    publisher = exporters.Publisher(model.job, model.run, model.records)
    export = publisher.publish(model.estimator, "final", model.checkpoint, step=1, metrics={})
    signature = tf.saved_model.load(export.path).signatures["serving_default"]
    answers = signature(logit=tf.constant(rows["logit"]))["probabilities"].numpy()[:, 1]
    np.testing.assert_allclose(answers, served, atol=1e-6)
    migrated = migration.Migration(model.run, model.path).publish(model.checkpoint)
    keras = tf.keras.models.load_model(f"{migrated.path}/model.keras")
    answers = keras({"logit": tf.constant(rows["logit"])})["probabilities"].numpy()[:, 1]
    np.testing.assert_allclose(answers, served, atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_correction_probabilities_are_too_high(folder):
    model = _Trained(folder, "none")
    odds = np.exp(model.parameters()[0])
    assert odds == pytest.approx(1 / KEEP, rel=0.3)
    assert model.estimator.evaluate(model.records.build_eval_input_fn("eval"))["calibration"] > 1.5
