"""A hook for `train.hooks` that keeps what the first step of a process did to the variables."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import tensorflow as tf

READING = ("IteratorGetNext", "MultiDeviceIteratorGetNextFromShard")


class FirstStep(tf.compat.v1.train.SessionRunHook):
    """Writes the trainable variables before and after the process's first step, by name, to
    `<PIPELINE_FIRST_STEP>/<role>-<index>.<before|after>.npz`. Copies of replicas are kept too; and
    what it read for that step, as `image` and `label` in `….batch.npz`."""

    def begin(self):
        graph = tf.compat.v1.get_default_graph()
        # Mirrored variables are one to Python and several to the graph.
        self._variables = {}
        for variable in tf.compat.v1.trainable_variables():
            for copy in getattr(variable, "values", [variable]):
                self._variables[copy.op.name] = copy
        (read, *_) = (op for op in graph.get_operations() if op.type in READING)
        kinds = {tf.uint8: "image", tf.int64: "label"}
        self._batch = {kinds[t.dtype]: t for t in read.outputs if t.dtype in kinds}
        self._done = False

    def after_create_session(self, session, coord):
        if not self._done:
            self._keep("before", session.run(self._variables))

    def before_run(self, run_context):
        return None if self._done else tf.compat.v1.train.SessionRunArgs(self._batch)

    def after_run(self, run_context, run_values):
        if not self._done:
            self._keep("batch", run_values.results)
            self._keep("after", run_context.session.run(self._variables))
            self._done = True

    def _keep(self, when, values):
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
        name = f"{task.get('type', 'chief')}-{task.get('index', 0)}"
        folder = pathlib.Path(os.environ["PIPELINE_FIRST_STEP"])
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / f"{name}.{when}.npz", **values)
