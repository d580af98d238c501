"""A run whose checkpoints get whatever metrics a test makes up."""

from __future__ import annotations

import pathlib

import numpy as np

from pipeline.runs import run_folder


class Scene:
    """A run with three checkpoints, which get whatever metrics a test makes up."""

    def __init__(self, finished, side_of, folder):
        self.run = finished.copy(folder, 100, 200, 300)
        self._side_of = side_of

    def evaluated(self, step, value, *overrides, **records):
        """Starts again, as after a restart, with one evaluation."""
        side = self._side_of(self.run, *overrides, **records)
        checkpoint = f"{self.run.path}/model.ckpt-{step}"
        metrics = {"accuracy": np.float32(value), "loss": 1.0, "global_step": np.int64(step)}
        return side.evaluation.best_exporter.export(
            side.estimator, "unused", checkpoint, metrics, step == 300
        )

    @property
    def records(self):
        return self._side_of(self.run).records

    @property
    def best(self):
        return self.run.read(run_folder.BEST)

    @property
    def exported(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob("best/*"))

    @property
    def leftovers(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob(".*"))
