"""A hook for `train.hooks` that kills one process of the run, once, and notes later steps."""

from __future__ import annotations

import json
import os
import signal
import time

import tensorflow as tf

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder


class KillOnce(tf.compat.v1.train.SessionRunHook):
    """Kills what PYTHON_KILL names: {"run": path, "task": name, "at": step, "steps": path}.

    The chief does it at that step and then, or in its next life, appends a line {"pid", "step",
    "time"} a step to `steps`; so does the process that is killed. The kill is the first line.
    """

    def begin(self):
        """Reads what to do."""
        self._plan = json.loads(os.environ["PYTHON_KILL"])
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
        self._name = f"{task.get('type', 'chief')}-{task.get('index', 0)}"
        self._step = tf.compat.v1.train.get_or_create_global_step()

    def before_run(self, run_context):
        """Fetches the global step."""
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        """Kills, or notes a step after the kill."""
        step = int(run_values.results)
        if os.path.exists(self._plan["steps"]):
            if self._name in ("chief-0", self._plan["task"]):
                self._note(step)
        elif self._name == "chief-0" and step >= self._plan["at"]:
            status = run_folder.read_statuses(RunFolder(self._plan["run"]))[self._plan["task"]]
            self._note(step, pid=status.pid)
            os.kill(status.pid, signal.SIGKILL)

    def _note(self, step, pid=None):
        row = {"task": self._name, "pid": pid or os.getpid(), "step": step, "time": time.time()}
        with open(self._plan["steps"], "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
