"""Commands of the trainer as processes, and one finished run that many tests look at."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

import pytest
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.records import manifest
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.evaluation.evaluator import RunEvaluator
from trainer.export import exporters, parity
from trainer.features.transforms import Transforms
from trainer.input.dataset import RecordDataset
from trainer.monitoring.status_reporter import Reporter

# Small steps of a small network: 2,847 records in batches of 100.
FINISHED = (
    "train.steps=300",
    "train.save_steps=100",
    "train.summary_steps=50",
    "train.optimizer={name: adam, learning_rate: 0.01}",
)


@pytest.fixture
def open_to_all():
    """A folder that every user can reach; those of the tests are the user's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield folder


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A run that `trainer.task` has taken to its end as a single process."""

    run: RunFolder
    job: config.Config
    output: str
    arguments: tuple[str, ...]  # what `trainer.task` was called with
    status: run_folder.Status  # of the chief, when it ended

    @property
    def path(self) -> pathlib.Path:
        return pathlib.Path(self.run.path)

    def copy(self, folder: pathlib.Path, *steps: int) -> RunFolder:
        """Returns a new run that has reached the last of `steps`, without any evaluation."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.path / "config.yaml", folder)
        for step in steps:
            for part in self.path.glob(f"model.ckpt-{step}.*"):
                shutil.copy(part, folder)
        names = [str(folder / f"model.ckpt-{step}") for step in steps]
        if names:
            tf.compat.v1.train.update_checkpoint_state(str(folder), names[-1], names)
        return RunFolder(str(folder))

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.path / "RESULT.json").read_text())

    def export(self, kind: str) -> str:
        """The folder of an exported model."""
        return str(self.path / self.result["exports"][kind])


@pytest.fixture(scope="session")
def task_flags(small_records):
    """Returns the flags of `trainer.task` on the small records."""

    def flags(run: str, *overrides: str, **others: str) -> tuple[str, ...]:
        values = {
            "config": small_records.config_path,
            "storage": str(small_records.storage),
            "run": run,
            **others,
        }
        named = [f"--{name}={value}" for name, value in values.items()]
        return (*named, *(f"--set={override}" for override in overrides))

    return flags


@pytest.fixture(scope="session")
def finished(small_records, commands, task_flags) -> FinishedRun:
    arguments = task_flags("finished", *FINISHED)
    output = commands.run("trainer.task", *arguments)
    run = RunFolder(str(small_records.storage / "runs" / "finished"))
    status = run_folder.read_statuses(run)["chief-0"]
    return FinishedRun(run, small_records.config(*FINISHED), output, arguments, status)


@pytest.fixture(autouse=True)
def _no_tf_config(monkeypatch):
    """`run_config` sets it; the next test must not inherit it."""
    monkeypatch.setenv("TF_CONFIG", "{}")


@pytest.fixture(scope="session")
def transforms(small_records) -> Transforms:
    """Those of the small records: the columns as they are."""
    return Transforms(small_records.job, small_records.contents)


@dataclasses.dataclass(frozen=True)
class Side:
    """What the evaluator process of a run has."""

    job: config.Config
    run: RunFolder
    records: RecordDataset
    estimator: Any
    reporter: Reporter

    @functools.cached_property
    def evaluation(self) -> RunEvaluator:
        return RunEvaluator(
            self.job, self.run, self.records, estimator=self.estimator, reporter=self.reporter
        )

    @functools.cached_property
    def publisher(self) -> exporters.Publisher:
        return exporters.Publisher(self.job, self.run, self.records, reporter=self.reporter)


@pytest.fixture
def unchecked(monkeypatch):
    """Exports are published without being compared with the Estimator, which takes most of their
    time. `tests/trainer/export` has the comparison."""
    monkeypatch.setattr(parity.Gate, "check", lambda *given: 0)


@pytest.fixture
def side_of(small_records):
    """Returns the evaluating side of a run."""

    def build(
        run: RunFolder, *overrides: str, contents: manifest.Manifest = small_records.contents
    ) -> Side:
        job = small_records.config(*FINISHED, *overrides)
        task = topology.Task(topology.EVALUATOR, 0)
        records = RecordDataset(job, small_records.folder, contents)
        reporter = Reporter(run, task.name, job.train.steps)
        built = experiment.build_estimator(job, run, task, transforms=records.transforms)
        return Side(job, run, records, built, reporter)

    return build


@pytest.fixture
def evaluation_of(side_of):
    """Returns the evaluation of a run."""
    return lambda run, *overrides: side_of(run, *overrides).evaluation
