"""What `trainer.run` does: a run of ours with the Estimator and the input of a script.

A config is made of what the script gives. From there on it is a run on an `input_fn` of the user's
own, of which this process is one role, by `TF_CONFIG`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import cli, config, errors, storage
from pipeline.cluster import compatibility, gpus, task_discovery, topology
from pipeline.config import config_file, own_input, strategy_table
from pipeline.console import interrupts
from pipeline.jobs import display
from pipeline.jobs import job as jobs
from pipeline.processes import environment
from pipeline.runs import run_folder, run_record, script_role
from trainer import joining
from trainer.checkpoints import checkpoint_files
from trainer.input import script_input
from trainer.input.script_input import ScriptInput, ScriptSpecs

_WHERE = "trainer.run"
_UNKNOWN_SIZE = (
    "the size of the batches to train on is not known; examples per second count {} in each. Give "
    "it with settings={{'train.batch_size': n}}"
)
# The script says these; settings may not.
_OF_SCRIPT = ("name", "data", "features", "label", "labels", "model", "train.steps", "train.epochs")
# What `tf.estimator.EvalSpec` and `RunConfig` have unless they are given something else.
_THROTTLE_SECONDS, _SAVE_SECONDS = 600, 600
# Metrics of the final checkpoint, if they are known, and folders of exported models.
Result = tuple[dict[str, float] | None, list[str]]
# True once this process has been a role.
_has_run = False


def run(
    script: ScriptSpecs, name: str | None, storage_root: str, *, settings: Mapping[str, Any]
) -> Result:
    """Trains, evaluates and exports: see `trainer.run`."""
    started = time.time()
    result: Result = (None, [])

    def main() -> None:
        nonlocal result
        result = _run(script, name, storage_root, settings=settings, started=started)

    with _allow_interrupts():
        code = cli.exit_code(main, sys.argv)
    if code:
        raise SystemExit(code)
    return result


@contextlib.contextmanager
def _allow_interrupts() -> Iterator[None]:
    """Lets signals interrupt as Ctrl-C does, and gives the script its own handlers back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in interrupts.NUMBERS}
    interrupts.install()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(
    script: ScriptSpecs,
    name: str | None,
    storage_root: str,
    *,
    settings: Mapping[str, Any],
    started: float,
) -> Result:
    if threading.current_thread() is not threading.main_thread():
        raise errors.UsageError(
            f"{_WHERE}: called in a thread; call it in the main one, which gets the signals to stop"
        )
    script_input.check(script)
    task = task_discovery.task_of(os.environ, job_name=None, task_index=0)
    if task.cluster:
        environment.hide_proxies_from_grpc(os.environ)
    job = topology.with_counts(_build_config(script, task, settings), task)
    job = gpus.with_replicas(job, gpus.count(os.environ))
    compatibility.check(job)
    role = script_role.read_role(os.environ)
    if task.cluster or role is not None:
        _refuse_second_run()
    wanted = _build_job(job, role, run_folder.run_folder(storage_root, name or job.name))
    if role is None or storage.exists(role.run.config_path):
        jobs.refuse_other_job(wanted)
    if task.is_chief:
        if role is not None:
            script_role.call(role, name or role.run.name)
        for line in _list_unused(script, wanted):
            print(f"warning: {line}", flush=True)
    if role is None and not task.cluster and _is_finished(wanted):
        return _read_result(wanted.run)
    if role is not None and (record := run_record.read(role.run)) is not None:
        without = bool(task.cluster) and not record.topology.get(topology.EVALUATOR)
        script = dataclasses.replace(script, evaluates=without)
    joining.run(wanted, task, started=started, script=script, role=role)
    return _read_result(wanted.run)


def _refuse_second_run() -> None:
    """Raises `UsageError` for a second run in a process that others wait for in the first."""
    global _has_run
    if _has_run:
        raise errors.UsageError(
            f"{_WHERE}: called twice in a process of a cluster or of estimator-pipeline run, which "
            "is for one run; start the script once for each"
        )
    _has_run = True


def _build_job(job: config.Config, role: script_role.Role | None, path: str) -> jobs.Job:
    """Returns a job whose run is in the folder `path`, or is that of a role."""
    run = run_folder.RunFolder(path) if role is None else role.run
    root = storage.parent(storage.parent(run.path))
    return jobs.Job(job, run.name, root, run, records="")


def _is_finished(wanted: jobs.Job) -> bool:
    """Tells, also the user, if the run has nothing left to do."""
    record = run_record.find_finished(wanted.config, wanted.run)
    if record is None:
        return False
    print(f"run {wanted.name} is already finished; nothing to do")
    print(display.summary(wanted, record), flush=True)
    return True


def _list_unused(script: ScriptSpecs, wanted: jobs.Job) -> Iterator[str]:
    """Yields a line for each thing in a script that has no effect here."""
    running = script.estimator.config
    seconds = running.save_checkpoints_secs
    if seconds and seconds != _SAVE_SECONDS:
        yield (
            f"save_checkpoints_secs={seconds} is not used: checkpoints are saved every "
            f"{wanted.config.train.save_steps} steps; give save_checkpoints_steps"
        )
    folder = script.estimator.model_dir
    if folder and checkpoint_files.find_newest(folder) is not None:
        yield (
            f"the checkpoints in {folder!r} are not continued; those of this run are in "
            f"{wanted.run.path!r}"
        )
    own = [
        type(exporter).__name__
        for exporter in script.eval_spec.exporters or ()
        if script_input.get_serving_input_fn(exporter) is None
    ]
    if own:
        yield (
            f"exporters of eval_spec are not called ({', '.join(own)}): the run exports its best "
            "and its final model"
        )


def _read_result(run: run_folder.RunFolder) -> Result:
    found = run.read(run_folder.RESULT) or {}
    exports = [path for path in found.get("exports", {}).values() if path]
    return found.get("metrics", {}).get("eval"), [storage.join(run.path, path) for path in exports]


def _build_config(
    script: ScriptSpecs, task: topology.Task, settings: Mapping[str, Any]
) -> config.Config:
    """Returns the config that a script comes to. Raises `UsageError` for a setting that is not
    known, or that the script gives by its specs."""
    for key in settings:
        if any(key == own or key.startswith(f"{own}.") for own in _OF_SCRIPT):
            raise errors.UsageError(
                f"{_WHERE}: settings[{key!r}]: is set by the estimator, train_spec and eval_spec "
                "of the script; other keys of train, eval and cluster are allowed"
            )
    path = pathlib.Path(sys.argv[0] or "script")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-_") or "script"
    tree = {
        "name": name[:50],
        "data": {"input_fn": own_input.OF_SCRIPT},
        "model": {
            "name": own_input.OF_SCRIPT,
            "params": {"estimator": type(script.estimator).__name__, "script": path.name},
        },
        "train": _read_train_settings(script),
        "eval": _read_eval_settings(script, settings),
        "cluster": {} if "cluster.strategy" in settings else _read_cluster_settings(script, task),
    }
    for key, value in settings.items():
        config_file.set_value(tree, key, value, where=f"{_WHERE}: settings[{key!r}]")
    job = config_file.validate(tree, f"settings of {_WHERE}")
    if "train.batch_size" in settings:
        return job
    size = ScriptInput(job, topology.Task(topology.CHIEF, 0), script).find_batch_size()
    if size is None:
        if task.is_chief:
            print(f"warning: {_UNKNOWN_SIZE.format(job.train.batch_size)}", flush=True)
        return job
    train = job.train.model_copy(update={"batch_size": size})
    return job.model_copy(update={"train": train})


def _read_train_settings(script: ScriptSpecs) -> dict[str, Any]:
    running = script.estimator.config
    given = {
        "seed": running.tf_random_seed,
        "save_steps": running.save_checkpoints_steps,
        "summary_steps": running.save_summary_steps,
        "keep_checkpoints": max(2, running.keep_checkpoint_max or 0) or None,
    }
    return {"steps": script.train_spec.max_steps, **{k: v for k, v in given.items() if v}}


def _read_eval_settings(script: ScriptSpecs, settings: Mapping[str, Any]) -> dict[str, Any]:
    throttle = script.eval_spec.throttle_secs
    found = {} if throttle == _THROTTLE_SECONDS else {"throttle_seconds": throttle}
    if "eval.metric" not in settings:  # all models report it
        found |= {"metric": "loss", "higher_is_better": False}
    return found


def _read_cluster_settings(script: ScriptSpecs, task: topology.Task) -> dict[str, Any]:
    if script.strategy is None:
        several = topology.PS in task.cluster
        if task.cluster and not several:
            raise errors.UsageError(
                f"{_WHERE}: TF_CONFIG names {', '.join(task.cluster)} and no ps, so the processes "
                "would not share a model; name a ps, or give RunConfig a train_distribute such as "
                "tf.distribute.MultiWorkerMirroredStrategy()"
            )
        return {"strategy": "parameter_server" if several else "none"}
    kind = type(script.strategy).__name__.removesuffix("V1")
    table = strategy_table.STRATEGIES
    name = next((name for name, one in table.items() if kind in one.classes), None)
    if name is None:
        known = ", ".join(known for one in table.values() for known in one.classes)
        raise errors.UsageError(
            f"{_WHERE}: train_distribute is a {type(script.strategy).__name__}; it may be {known}"
        )
    replicas = script.strategy.num_replicas_in_sync
    return {
        "strategy": name,
        **({"replicas": replicas} if "replicas" in table[name].keys else {}),
    }
