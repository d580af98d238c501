"""Faults that happen at a step: hooks and models for configs, and the entry that tells them where.

`faults.json` in the run folder is a list of `{"by": task, "at": step, "do": action, ...}`; the
process `by` does it once it has seen the global step, and once in the life of the run: the file
`fired-<number>.json` says so.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import time

import numpy as np
import tensorflow as tf

from pipeline import run_folder, topology
from pipeline.run_folder import RunFolder
from tests.trainer import user_code
from trainer import ledger
from trainer import task as trainer_task
from trainer.models import mnist_mlp

ENTRY = f"{__name__}:run_task"
HOOK = f"{__name__}:Faults"
_PLACE = "PIPELINE_FAULTS"
_PATIENCE = 60.0  # seconds; keeps a broken test from hanging for ever


def run_task(run_path: str, records: str, task: topology.Task) -> None:
    """Is `trainer.task.run_task`, and lets hooks know the run folder."""
    os.environ[_PLACE] = run_path
    trainer_task.run_task(run_path, records, task)


def the_run() -> RunFolder:
    return RunFolder(os.environ[_PLACE])


def own_name() -> str:
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    return f"{task.get('type', 'chief')}-{task.get('index', 0)}"


def once(name: str, **content) -> bool:
    """True for the first process that asks, in the life of a run."""
    path = os.path.join(the_run().path, f"fired-{name}.json")
    whole = f"{path}.{os.getpid()}"
    with open(whole, "w", encoding="utf-8") as file:
        json.dump({"time": time.time(), **content}, file)
    try:
        os.link(whole, path)  # appears with its content, and only once
    except FileExistsError:
        return False
    finally:
        os.unlink(whole)
    return True


def wait_for(condition) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


class Faults(tf.compat.v1.train.SessionRunHook):
    """Does what `faults.json` says, when the global step gets there. `pace` slows each step, so
    that a run lasts longer than its faults; one for all, or by task."""

    def begin(self):
        self._step = tf.compat.v1.train.get_or_create_global_step()
        plan = the_run().read("faults.json") or {"faults": [], "pace": 0.0}
        mine = own_name()
        pace = plan["pace"]
        self._pace = pace[mine] if isinstance(pace, dict) else pace
        self._faults = [
            (number, fault) for number, fault in enumerate(plan["faults"]) if fault["by"] == mine
        ]

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        time.sleep(self._pace)
        for number, fault in list(self._faults):
            if int(run_values.results) >= fault["at"]:
                self._meet(number, int(run_values.results), **fault)
                return  # one at a time

    def _meet(self, number: int, step: int, by: str, at: int, do: str, target: str) -> None:
        pid = living_pid(target)
        if pid is None or pid in _met():
            return  # it is being started again; at one of the next steps
        self._faults = [(other, fault) for other, fault in self._faults if other != number]
        if not once(str(number), step=step, pid=os.getpid(), **{do: pid}):
            return
        _tell(step)
        if do == "await_step":
            wait_for(lambda: _has_stepped(target))
        elif do == "await_return":
            # It may be that what it is to return from has yet to happen.
            wait_for(lambda: _met() and living_pid(target) not in _met() and _has_stepped(target))
        else:
            os.kill(pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[do])


def _met() -> set[int]:
    """Returns the processes that something has been done to; killed ones may not be gone yet."""
    folder = the_run().path
    names = [name for name in os.listdir(folder) if re.fullmatch(r"fired-\w+\.json", name)]
    fired = [the_run().read(name) or {} for name in names]
    return {one[do] for one in fired for do in ("kill", "stop") if do in one}


def living_pid(task: str) -> int | None:
    """Returns the process of a task, if it lives; never that of another one with its number."""
    status = run_folder.read_statuses(the_run()).get(task)
    try:
        with open(f"/proc/{status.pid if status else 0}/comm", encoding="ascii") as file:
            return status.pid if file.read().strip() == task[:15] else None
    except OSError:
        return None


def _tell(step: int) -> None:
    """Lets the supervisor know the exact step; a status may be a second old."""
    run = the_run()
    status = run_folder.read_statuses(run)[own_name()]
    run_folder.write_status(run, dataclasses.replace(status, step=step, time=time.time()))


def _has_stepped(task: str) -> bool:
    status = run_folder.read_statuses(the_run()).get(task)
    return status is not None and living_pid(task) is not None and status.loss is not None


class _KillInLastEvaluation(tf.compat.v1.train.SessionRunHook):
    """Kills the evaluating process once training is over."""

    def after_run(self, run_context, run_values):
        if the_run().read(run_folder.TRAINING_DONE) and once("last-evaluation", pid=os.getpid()):
            os.kill(os.getpid(), signal.SIGKILL)


class _WaitUntilDeleted(tf.compat.v1.train.SessionRunHook):
    """Has an evaluation begin only when the newest checkpoint there is has been deleted again."""

    def begin(self):
        newest = tf.train.latest_checkpoint(the_run().path)
        if newest is not None and once(f"slow-{os.path.basename(newest)}"):
            wait_for(
                lambda: (
                    not os.path.exists(f"{newest}.index")
                    or the_run().read(run_folder.TRAINING_DONE)
                )
            )


def _with_evaluation_hook(hook):
    def model_fn(features, labels, mode, params):
        spec = mnist_mlp.model_fn(features, labels, mode, params)
        if mode != tf.estimator.ModeKeys.EVAL:
            return spec
        return spec._replace(evaluation_hooks=(*spec.evaluation_hooks, hook()))

    return model_fn


killed_in_last_evaluation = _with_evaluation_hook(_KillInLastEvaluation)
slow_evaluation = _with_evaluation_hook(_WaitUntilDeleted)
nan_model_fn = user_code.nan_model_fn

# The variable of `witnessed`: how often a record was applied, by the number that names it.
WITNESS = "witness"
NAMES = 65_537
# Odd, so that no pixel goes unseen.
PIXELS = np.random.default_rng(1).integers(0, 2**31, (28, 28, 1), np.int64) | 1


def witnessed(features, labels, mode, params):
    """Counts by itself which records were applied, knowing nothing of blocks."""
    spec = mnist_mlp.model_fn(features, labels, mode, params)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    counts = ledger.variable(WITNESS, [NAMES], tf.int32, saved=True)
    names = tf.reduce_sum(tf.cast(features["image"], tf.int64) * PIXELS, [1, 2, 3]) % NAMES
    with tf.control_dependencies([spec.train_op]):
        counted = tf.raw_ops.ResourceScatterAdd(
            resource=counts.handle, indices=names, updates=tf.ones_like(names, tf.int32)
        )
    return spec._replace(train_op=counted)


class TellTale(tf.compat.v1.train.SessionRunHook):
    """Logs what nobody should see."""

    def begin(self):
        tf.get_logger().info("its environment: %s", os.environ["PIPELINE_SHOWN"])
