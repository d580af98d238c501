"""A run whose checkpoints are judged with whatever values a test makes up."""

from __future__ import annotations

import pathlib

import numpy as np

from pipeline.runs import run_folder


class Scene:
    """A run with three checkpoints, judged with whatever values a test makes up."""

    def __init__(self, finished, evaluation_of, folder):
        self.run = finished.copy(folder, 100, 200, 300)
        self._evaluation_of = evaluation_of

    def judge(self, step, value, *overrides, **records):
        """Starts again, as after a restart, and judges one evaluation."""
        evaluation = self._evaluation_of(self.run, *overrides, **records)
        checkpoint = f"{self.run.path}/model.ckpt-{step}"
        metrics = {"accuracy": np.float32(value), "loss": 1.0, "global_step": np.int64(step)}
        return evaluation.best_exporter.export(
            evaluation.estimator, "unused", checkpoint, metrics, step == 300
        )

    @property
    def records(self):
        return self._evaluation_of(self.run).records

    @property
    def best(self):
        return self.run.read(run_folder.BEST)

    @property
    def exported(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob("best/*"))

    @property
    def leftovers(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob(".*"))
