"""A hook for `train.hooks` that notes two moments of training."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

import tensorflow as tf

from benchmarks.peers import measure
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.storage import strict_json

FILE, STEPS = "PYTHON_BENCH_PEERS_MARKS", "PYTHON_BENCH_PEERS_STEPS"


class Marks(tf.compat.v1.train.SessionRunHook):
    """Writes the marks of the steps that one variable lists to the file that the other names, if
    this is the chief. A step that is passed by, as others make some too, is the next one; so is the
    first while an evaluator is at work, which no peer has."""

    def begin(self):
        """Finds the global step."""
        self._step = tf.compat.v1.train.get_or_create_global_step()
        self._wanted = [int(step) for step in os.environ[STEPS].split(",")]
        self._marks = []

    def before_run(self, run_context):
        """Fetches the global step."""
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        """Notes the moment, if this is a step to note."""
        step = int(run_values.results)
        if self._wanted and step >= self._wanted[0] and (self._marks or not _is_evaluating()):
            self._marks.append(dataclasses.asdict(measure.take_mark(step)))
            self._wanted.pop(0)
            self._write()

    def _write(self):
        role = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type")
        if role in (None, topology.CHIEF):
            pathlib.Path(os.environ[FILE]).write_text(
                strict_json.dumps(self._marks), encoding="utf-8"
            )


def _is_evaluating() -> bool:
    """True while a checkpoint is evaluated or exported by a process of its own."""
    [run] = pathlib.Path(os.environ[FILE]).parent.glob("run/runs/*")
    found = run_folder.read_statuses(run_folder.RunFolder(str(run)))
    evaluator = found.get(f"{topology.EVALUATOR}-0")
    return evaluator is not None and evaluator.state in ("evaluating", "exporting")
