"""A hook for `train.hooks` that keeps what a process has restored before it makes a step."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import tensorflow as tf

from tests.faults import injected


class AtStart(tf.compat.v1.train.SessionRunHook):
    """Writes all saved variables to `at_start/<role>-<index>.npz` of the run.

    A key is the name in the checkpoint; behind it, of a variable that is cut over parameter
    servers, `|` and where the part begins along the first axis; of a copy, `#` and its number.
    `at_start/<role>-<index>.servers.json` has what lies on which server.
    """

    def begin(self):
        self._variables = {}
        for variable in tf.compat.v1.global_variables():
            for number, copy in enumerate(getattr(variable, "values", [variable])):
                self._variables[f"{_name(variable)}#{number}"] = copy.read_value()
        self._done = False

    def after_create_session(self, session, coord):
        if self._done:
            return
        self._done = True
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
        folder = pathlib.Path(injected.the_run().path) / "at_start"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{task.get('type', 'chief')}-{task.get('index', 0)}.npz"
        np.savez(path, **session.run(self._variables))
        placed = [_find_place(variable) for variable in tf.compat.v1.trainable_variables()]
        path.with_suffix(".servers.json").write_text(json.dumps([one for one in placed if one]))


def _name(variable):
    part = variable._get_save_slice_info()
    if part is None:
        return variable.name.partition(":")[0]
    return f"{part.full_name}|{part.var_offset[0]}"


def _find_place(variable):
    server = tf.DeviceSpec.from_string(variable.device)
    if server.job != "ps":
        return None
    size = variable.shape.num_elements() * variable.dtype.size
    return {"table": _name(variable).partition("|")[0], "server": server.task, "bytes": size}
