"""A hook for `train.hooks` that keeps what the first step of a process did to the variables."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import tensorflow as tf


class FirstStep(tf.compat.v1.train.SessionRunHook):
    """Writes the trainable variables before and after the process's first step, by name, to
    `<PIPELINE_FIRST_STEP>/<role>-<index>.<before|after>.npz`. Copies of replicas are kept too."""

    def begin(self):
        # Mirrored variables are one to Python and several to the graph.
        self._variables = {}
        for variable in tf.compat.v1.trainable_variables():
            for copy in getattr(variable, "values", [variable]):
                self._variables[copy.op.name] = copy
        self._done = False

    def after_create_session(self, session, coord):
        if not self._done:
            self._keep("before", session)

    def after_run(self, run_context, run_values):
        if not self._done:
            self._keep("after", run_context.session)
            self._done = True

    def _keep(self, when, session):
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
        name = f"{task.get('type', 'chief')}-{task.get('index', 0)}"
        folder = pathlib.Path(os.environ["PIPELINE_FIRST_STEP"])
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / f"{name}.{when}.npz", **session.run(self._variables))
