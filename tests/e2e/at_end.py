"""A hook for `train.hooks` that keeps what a process has when it ends."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from tests.faults import injected


class AtEnd(tf.compat.v1.train.SessionRunHook):
    """Writes the variables that are trained, of several copies the first, to
    `at_end/<role>-<index>.npz` of the run."""

    def begin(self):
        self._variables = {}
        for variable in tf.compat.v1.trainable_variables():
            copy = getattr(variable, "values", [variable])[0]
            self._variables[variable.name.partition(":")[0]] = copy.read_value()

    def end(self, session):
        folder = pathlib.Path(injected.the_run().path) / "at_end"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"{injected.own_name()}.npz", **session.run(self._variables))
