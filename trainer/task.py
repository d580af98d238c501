"""One process of a training run: chief, worker, ps or evaluator.

The launcher starts these by itself; by hand, on any hosts that share a folder:

  python -m trainer.task --config=mnist --run=by-hand --job_name=worker --task_index=0 \\
      --cluster_spec='{"chief": ["h0:2222"], "worker": ["h1:2222"], "ps": ["h2:2222"]}'

Instead of --cluster_spec there may be --chief_hosts, --worker_hosts and --ps_hosts; without flags
TF_CONFIG says it, or the CLUSTER_SPEC of Vertex AI. Without any of them it is a single process that
trains, evaluates and exports.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import time
from collections.abc import Iterator

from absl import flags

from pipeline import cli, config, errors, storage, versions
from pipeline.cluster import compatibility, task_discovery, tolerance, topology
from pipeline.config import config_file, own_input
from pipeline.jobs import by_hand
from pipeline.jobs import job as jobs
from pipeline.processes import environment, isolation
from pipeline.records import builds
from pipeline.runs import (
    fatal,
    liveness,
    log_writer,
    run_folder,
    run_lock,
    run_record,
    start_patience,
)
from trainer.lifecycle import preflight
from trainer.monitoring.status_reporter import Reporter

_CONFIG = flags.DEFINE_string(
    "config", None, "Shipped config name, or path of a YAML file.", required=True
)
_RUN = flags.DEFINE_string(
    "run", None, "Name of the run; its folder is <storage>/runs/<run>.", required=True
)
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")
_SET = flags.DEFINE_multi_string("set", [], "Override, such as train.steps=500. Repeatable.")
_JOB_NAME = flags.DEFINE_string("job_name", None, "chief, worker, ps or evaluator.")
_TASK_INDEX = flags.DEFINE_integer("task_index", 0, "Index among the tasks of that job name.")
_CLUSTER_SPEC = flags.DEFINE_string("cluster_spec", "", "JSON: role to list of host:port.")
# What processes of a run are that hold no records.
_READ_NOTHING = ("preparing", "gone", "silent", *run_folder.ENDED)
_HOSTS = {
    role: flags.DEFINE_string(f"{role}_hosts", "", f"The {role}: host:port, separated by commas.")
    for role in (topology.CHIEF, topology.WORKER, topology.PS)
}


def run_task(
    run_path: str, records_path: str, task: topology.Task, *, reporter: Reporter | None = None
) -> None:
    """Runs one process of the run at `run_path` to its end; the launcher's way in. By hand it has
    reported before, by its `reporter`."""
    from trainer import roles  # not before it is known that there are Estimators

    roles.run(run_folder.RunFolder(run_path), records_path, task, reporter=reporter)


def main() -> None:
    """Runs one process as the flags say."""
    started = time.time()
    versions.require_estimators()
    task = task_discovery.task_of(
        os.environ,
        job_name=_JOB_NAME.value,
        task_index=_TASK_INDEX.value,
        cluster_spec=_CLUSTER_SPEC.value,
        hosts={role: flag.value for role, flag in _HOSTS.items()},
    )
    if task.cluster:
        environment.hide_proxies_from_grpc(os.environ)
    job = topology.with_counts(config_file.load(_CONFIG.value, _SET.value), task)
    root = storage.absolute(_STORAGE.value)
    run = run_folder.RunFolder(run_folder.run_folder(root, _RUN.value))
    records = _records_for(job, run, task)
    compatibility.check(job)
    log_writer.keep(run, task.name)
    wanted = jobs.Job(job, run.name, root, run, records)
    ending = by_hand.Ending(wanted, task, started=started)
    with (
        _alone(run, task),
        fatal.once(run, task.name, os.environ.get(fatal.SUBMISSION)),
        by_hand.recorded(ending),
    ):
        _run(wanted, task, ending)


def _run(wanted: jobs.Job, task: topology.Task, ending: by_hand.Ending) -> None:
    """Agrees with the other roles and runs the process to its end. Others see from the start on
    that it is there."""
    run, job = wanted.run, wanted.config
    if task.is_chief:
        storage.makedirs(run.path)
        _remove_statuses(run)
    reporter = Reporter(
        dataclasses.replace(run, patience=tolerance.patience(job.cluster)),
        task.name,
        job.train.steps,
        spread=task.spread,
    )
    reporter.say("preparing")
    reporter.keep_alive()
    try:
        if task.is_chief:
            if job.data.has_records:
                builds.pin_to(wanted.storage_root, run, job.name, wanted.records)
            _make_ready(run, job, ending)
            preflight.Answering(run, job).start()
        else:
            preflight.check(run, job, task, patience=start_patience.seconds(os.environ))
        records = builds.of_run(wanted.storage_root, run, job.name)
    except errors.PipelineError as error:
        reporter.say("failed", error=str(error), exit_code=error.exit_code)
        raise
    except KeyboardInterrupt:
        reporter.say("stopped", error="stopped", exit_code=errors.RetryableError.exit_code)
        raise
    if task.job_name in task.cluster:  # an evaluator starts no server
        print(isolation.note([task.cluster[task.job_name][task.task_index]]), flush=True)
    run_task(run.path, records, task, reporter=reporter)


def _records_for(job: config.Config, run: run_folder.RunFolder, task: topology.Task) -> str:
    """Returns the build to train on. While other processes of the run are at work, this one was
    started again, and stays with the records that they read; those that prepare read none yet."""
    now = time.time()
    others = [s for name, s in run_folder.read_statuses(run).items() if name != task.name]
    working = any(liveness.of_process(run, one, now) not in _READ_NOTHING for one in others)
    moves = job.train.on_new_data != "refuse" and not working
    return builds.wanted(_STORAGE.value, job, run, moves=moves)


@contextlib.contextmanager
def _alone(run: run_folder.RunFolder, task: topology.Task) -> Iterator[None]:
    """Keeps a second chief from a run, and on a disk launchers too: both would write checkpoints;
    and a second evaluator: both would judge the best."""
    with contextlib.ExitStack() as stack:
        if task.is_chief and not storage.is_remote(run.path):
            stack.enter_context(run_lock.held(run))
        elif task.is_chief or task.job_name == topology.EVALUATOR:
            stack.enter_context(run_lock.of_role(run, task.job_name))
        yield


def _remove_statuses(run: run_folder.RunFolder) -> None:
    """Removes what processes of an earlier start have said; some of this one may wait already."""
    now, found = time.time(), run_folder.read_statuses(run)
    here = {name for name, one in found.items() if one.state == "preparing"}
    for name in storage.listdir(storage.join(run.path, "status")):
        task = name.removesuffix(".json")
        if task not in here or liveness.of_process(run, found[task], now) != "preparing":
            run.remove(f"status/{name}")


def _make_ready(run: run_folder.RunFolder, job: config.Config, ending: by_hand.Ending) -> None:
    """Makes the run folder what the other roles expect."""
    storage.write_text(run.config_path, config_file.dump(job))
    if not job.data.has_records:
        print(own_input.describe(job), flush=True)
    for line in config_file.warnings(job):
        print(f"warning: {line}", flush=True)
    stale = [run_folder.TRAINING_DONE, run_folder.EXCLUDED]  # of an earlier start
    submission = os.environ.get(fatal.SUBMISSION)
    if not submission or not fatal.has_begun(run, submission):
        stale.append(run_folder.STOP)  # else it may be of this one, before the platform's restart
    record = run_record.read(run)
    if submission and record is not None and record.status != "running":
        stale.append(run_record.FILE_NAME)  # what a launcher wrote of a start that is over
    for name in stale:
        run.remove(name)
    if submission:
        fatal.begin(run, submission)
    elif run_record.job_at_work(record) is None:  # else the launcher of that job keeps the record
        ending.begin()


if __name__ != "__main__":
    # The launcher imports this module once, to have TensorFlow in every process it forks.
    importlib.import_module("trainer.roles")
else:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    cli.run(main, outlives_reader=True)
