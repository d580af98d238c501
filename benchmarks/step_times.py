"""A hook for `train.hooks` that notes when the chief makes its steps."""

from __future__ import annotations

import json
import os
import time

import tensorflow as tf

from pipeline.cluster import topology


class StepTimes(tf.compat.v1.train.SessionRunHook):
    """Appends {"step", "time", "cpu"} a line to the file named by PYTHON_STEP_TIMES, at the end."""

    def begin(self):
        """Finds the global step."""
        self._step = tf.compat.v1.train.get_or_create_global_step()
        self._rows = []

    def before_run(self, run_context):
        """Fetches the global step."""
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        """Notes it with the time, and the processor seconds of this process."""
        row = {"step": int(run_values.results), "time": time.time(), "cpu": time.process_time()}
        self._rows.append(row)

    def end(self, session):
        """Writes what was noted, if this is the chief."""
        role = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type")
        if role in (None, topology.CHIEF):
            with open(os.environ["PYTHON_STEP_TIMES"], "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in self._rows)
