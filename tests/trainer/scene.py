"""A run whose checkpoints get whatever metrics a test makes up."""

from __future__ import annotations

import pathlib

import numpy as np

from pipeline.runs import run_folder
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import best_exporter


class Scene:
    """A run with three checkpoints, which get whatever metrics a test makes up."""

    def __init__(self, finished, side_of, folder):
        self.run = finished.copy(folder, 100, 200, 300)
        self._side_of = side_of
        self._made_up = {}

    def evaluated(self, step, value, *overrides, loss=1.0, **records):
        """Starts again, as after a restart, with one evaluation."""
        return self.evaluate(self.started(*overrides, **records), step, value, loss=loss)

    def evaluate(self, side, step, value, *, loss=1.0):
        """Makes up an evaluation while it trains."""
        checkpoint = f"{self.run.path}/model.ckpt-{step}"
        metrics = {"accuracy": np.float32(value), "loss": loss, "global_step": np.int64(step)}
        self._made_up[checkpoint_files.compute_digest(checkpoint)] = metrics
        return side.evaluation.best_exporter.export(
            side.estimator, "unused", checkpoint, metrics, step == 300
        )

    def started(self, *overrides, settle=True, **records):
        """Starts again, when nothing is new."""
        side = self._side_of(self.run, *overrides, **records)
        side.evaluation.measure = self._measure
        if settle:
            side.evaluation.settle_best()
            side.reporter.report("waiting")
        return side

    def change(self, step, value):
        """Makes up another accuracy of a checkpoint that was evaluated, as on other records."""
        digest = checkpoint_files.compute_digest(f"{self.run.path}/model.ckpt-{step}")
        self._made_up[digest] = {**self._made_up[digest], "accuracy": value}

    def _measure(self, split, checkpoint):
        made_up = self._made_up[checkpoint_files.compute_digest(checkpoint)]
        return best_exporter.convert_to_floats(made_up)

    @property
    def note(self):
        """What the evaluating process has said to people since it was started."""
        return run_folder.read_statuses(self.run)["evaluator-0"].note

    @property
    def records(self):
        return self._side_of(self.run).records

    @property
    def best(self):
        return self.run.read(run_folder.BEST)

    @property
    def steps(self):
        """Those of the evaluations that were noted."""
        found = self.run.read("evaluations.json") or {"evaluations": []}
        return [int(metrics["global_step"]) for metrics in found["evaluations"]]

    @property
    def exported(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob("best/*"))

    @property
    def leftovers(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob(".*"))
