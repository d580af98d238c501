"""Faults at a step or moment: hooks and models for configs, and the entry that tells them where.

`faults.json` in the run folder is a list of `{"by": task, "at": step, "do": action, "target": task,
...}`; the process `by` does it once it has seen the global step, and once in the life of the run:
the file `fired-<number>.json` says so. With `"when"` it waits from that step on for one of
`moments.MOMENTS`; with `"again": true` it also kills what is started again after the first kill. A
target is a task, `all`, or `launcher`. The file `moments.jsonl` has every save and restore.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import json
import os
import re
import signal
import time

import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.faults import processes
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.faults import moments, witness
from tests.trainer import user_code
from trainer.models import mnist_mlp

ENTRY = f"{__name__}:run_task"
HOOK = f"{__name__}:Faults"
_PLACE = "PIPELINE_FAULTS"
_LONG, _SHORT = 2.0, 0.15  # seconds
_PATIENCE = 60.0  # seconds; keeps a broken test from hanging for ever
_PACE_READ = 0.5  # seconds
_STEP = "step"
_AHEAD = 20  # steps that a process may be ahead of a fault of another one


def run_task(run_path: str, records: str, task: topology.Task) -> None:
    """Is `trainer.task.run_task`, and lets hooks know the run folder."""
    from trainer import task as trainer_task  # defines flags

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
    that a run lasts longer than its faults; one for all, or by task. `pace.json`, if there is one,
    replaces it while the run continues."""

    def __init__(self) -> None:
        self._step_seen = 0
        self._paced_at = 0.0
        self._faults = []
        moments.install(self._due, self._note)

    def begin(self):
        self._step = tf.compat.v1.train.get_or_create_global_step()
        plan = the_run().read("faults.json") or {"faults": [], "pace": 0.0}
        mine = own_name()
        pace = plan["pace"]
        self._pace = pace[mine] if isinstance(pace, dict) else pace
        of_mine = [(n, fault) for n, fault in enumerate(plan["faults"]) if fault["by"] == mine]
        self._faults = [(n, fault) for n, fault in of_mine if not _has_fired(n)]
        self._step_seen = run_folder.find_saved_step(the_run()) or 0
        # Where others step on alone, they would end the run before a fault that waits for one that
        # is being started.
        alone = not strategy_table.STRATEGIES[the_run().read_config().cluster.strategy].synchronous
        others = [(n, fault["at"]) for n, fault in enumerate(plan["faults"]) if fault["by"] != mine]
        self._awaited = [(n, at) for n, at in others if alone and not _has_fired(n)]
        self._repeat(of_mine)
        moments.report_restores(mine, self._due, self._note)

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        time.sleep(self._current_pace())
        self._step_seen = int(run_values.results)
        self._wait_for_others()
        action = self._due(_STEP)
        if action is not None:
            action()  # one at a time

    def _wait_for_others(self) -> None:
        while self._awaited and self._awaited[0][1] + _AHEAD < self._step_seen:
            number, _ = self._awaited.pop(0)
            wait_for(functools.partial(_has_fired, number))

    def _current_pace(self) -> float:
        if time.monotonic() - self._paced_at > _PACE_READ:
            self._paced_at = time.monotonic()
            self._pace = (the_run().read("pace.json") or {"pace": self._pace})["pace"]
        return self._pace

    def _note(self, moment: str, **content) -> None:
        """Appends what `verdict` derives its bounds from."""
        if own_name() == "chief-0":
            step = run_folder.find_saved_step(the_run())
            row = {"moment": moment, "pid": os.getpid(), "step": step, **content}
            with open(os.path.join(the_run().path, moments.FILE), "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _due(self, moment: str, step: int | None = None):
        """Returns what to do at this moment."""
        step = self._step_seen if step is None else step
        for number, fault in self._faults:
            if fault.get("when", _STEP) == moment and step >= fault["at"]:
                return functools.partial(self._meet, number, fault)
        return None

    def _meet(self, number: int, fault: dict) -> None:
        if fault.get("when", _STEP) != _STEP:
            # Unlike a step, the moment may not come again.
            wait_for(lambda: _can_be_met(fault["target"]) or _has_ended(fault["target"]))
            if _has_ended(fault["target"]):  # well, with its last step, before the chief has saved
                once(str(number), pid=os.getpid(), ended=fault["target"])
                return
        if not _can_be_met(fault["target"]):
            return  # it is being started again; at one of the next steps
        pids = processes.pids_of(fault["target"], the_run())
        self._faults = [(other, fault) for other, fault in self._faults if other != number]
        do, step = fault["do"], self._step_seen
        done = pids if len(pids) > 1 else pids[0]
        if not once(str(number), step=step, pid=os.getpid(), **{do: done}):
            return
        _tell(step)
        if do == "await_step":
            wait_for(lambda: _has_stepped(fault["target"]))
        elif do == "await_return":
            # It may be that what it is to return from has yet to happen.
            wait_for(lambda: _is_back(fault["target"]))
        else:
            processes.send(pids, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[do])
            if fault.get("again"):
                self._again(number, fault["target"])

    def _repeat(self, faults: list[tuple[int, dict]]) -> None:
        """Kills a second time what was killed with this process."""
        for number, fault in faults:
            first = the_run().read(f"fired-{number}.json")
            if fault.get("again") and first and first["pid"] != os.getpid():
                self._again(number, fault["target"])

    def _again(self, number: int, target: str) -> None:
        """Kills `target` as soon as it has been started again."""
        wait_for(lambda: _can_be_met(target))
        pids = processes.pids_of(target, the_run())
        if pids and once(f"{number}again", pid=os.getpid(), kill=pids):
            processes.send(pids, signal.SIGKILL)


def _has_fired(number: int) -> bool:
    return the_run().read(f"fired-{number}.json") is not None


def _can_be_met(target: str) -> bool:
    """True if all processes of `target` live, and nothing has been done to them."""
    pids = processes.pids_of(target, the_run())
    return bool(pids) and not set(pids) & _list_met()


def _has_ended(target: str) -> bool:
    """True if a task has done all of its work."""
    status = run_folder.read_statuses(the_run()).get(target)
    return status is not None and status.state == "done"


def _list_met() -> set[int]:
    """Returns the processes that something has been done to; killed ones may not be gone yet."""
    folder = the_run().path
    names = [name for name in os.listdir(folder) if re.fullmatch(r"fired-\w+\.json", name)]
    fired = [the_run().read(name) or {} for name in names]
    done = [one[do] for one in fired for do in ("kill", "stop") if do in one]
    return {pid for pids in done for pid in (pids if isinstance(pids, list) else [pids])}


def _tell(step: int) -> None:
    """Lets the supervisor know the exact step; a status may be a second old."""
    run = the_run()
    status = run_folder.read_statuses(run).get(own_name())
    if status is not None and status.pid == os.getpid() and status.state == "training":
        run_folder.write_status(run, dataclasses.replace(status, step=step, time=time.time()))


def _is_back(task: str) -> bool:
    return (
        bool(_list_met())
        and processes.find_living_pid(task, the_run()) not in _list_met()
        and _has_stepped(task)
    )


def _has_stepped(task: str) -> bool:
    status = run_folder.read_statuses(the_run()).get(task)
    return (
        status is not None
        and processes.find_living_pid(task, the_run()) is not None
        and status.loss is not None
    )


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


class _SlowSaver(tf.compat.v1.train.Saver):
    """Takes long to restore, as large models do; the parameters are there before it is done."""

    def restore(self, sess, save_path):
        super().restore(sess, save_path)
        if own_name() == "chief-0":
            time.sleep(_LONG)


def slowly_restored(features, labels, mode, params):
    """The witness, which takes long to restore."""
    spec = witness.model_fn(features, labels, mode, params)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    saver = _SlowSaver(sharded=True, defer_build=True, save_relative_paths=True)
    return spec._replace(scaffold=tf.compat.v1.train.Scaffold(saver=saver))


def dense(features, labels, mode, params):
    """The witness, whose gradients are of all records."""
    how = dataclasses.replace(params["optimizer"], dense_rows=witness.NAMES)
    return witness.model_fn(features, labels, mode, {**params, "optimizer": how})


def paused(features, labels, mode, params):
    """The witness, whose workers stand still when an update is applied, before they do anything
    else."""
    spec = witness.model_fn(features, labels, mode, params)
    if mode != tf.estimator.ModeKeys.TRAIN or own_name() == "chief-0":
        return spec
    with tf.control_dependencies([spec.train_op]):
        pause = tf.numpy_function(lambda: time.sleep(_SHORT), [], [])
    return spec._replace(train_op=pause)


class TellTale(tf.compat.v1.train.SessionRunHook):
    """Logs what must not be shown."""

    def begin(self):
        tf.get_logger().info("its environment: %s", os.environ["PIPELINE_SHOWN"])


class _Raises(tf.compat.v1.train.SessionRunHook):
    """Raises at a step of every process, or until the run has seen it a few times."""

    STEP = 25
    TIMES = 0  # always

    def begin(self):
        self._step = tf.compat.v1.train.get_or_create_global_step()

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        left = [number for number in range(self.TIMES) if not _has_fired(number)]
        if run_values.results >= self.STEP and (left or not self.TIMES):
            once(str(left[0]) if left else f"of-{os.getpid()}")
            raise self.error()


class Bug(_Raises):
    """A defect of the user's code, which comes again whenever the step is made."""

    def error(self):
        return KeyError("a bug")


class LostConnection(_Raises):
    """What the network does twice at the same place, and then no more."""

    TIMES = 2

    def error(self):
        return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
