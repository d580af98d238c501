"""One process of a training run: chief, worker, ps or evaluator.

The launcher starts these by itself; by hand, on any hosts that share a folder:

  python -m trainer.task --config=mnist --run=by-hand --job_name=worker --task_index=0 \\
      --cluster_spec='{"chief": ["h0:2222"], "worker": ["h1:2222"], "ps": ["h2:2222"]}'

Instead of --cluster_spec there may be --chief_hosts, --worker_hosts and --ps_hosts; without flags
TF_CONFIG says it, or the CLUSTER_SPEC of Vertex AI. Without any of them it is a single process that
trains, evaluates and exports.
"""

from __future__ import annotations

import importlib
import os
import time

from absl import flags

from pipeline import COMMAND_BEGAN, cli, config, storage, versions
from pipeline.cluster import compatibility, gpus, task_discovery, topology
from pipeline.config import config_file
from pipeline.jobs import job as jobs
from pipeline.processes import environment
from pipeline.records import builds
from pipeline.runs import fatal, liveness, own_package, run_folder, submitted_code
from trainer import joining

_CONFIG, _SET = cli.config_flags()
_RUN = flags.DEFINE_string(
    "run", None, "Name of the run; its folder is <storage>/runs/<run>.", required=True
)
_STORAGE = cli.storage_flag()
_JOB_NAME = flags.DEFINE_string("job_name", None, "chief, worker, ps or evaluator.")
_TASK_INDEX = flags.DEFINE_integer("task_index", 0, "Index among the tasks of that job name.")
_CLUSTER_SPEC = flags.DEFINE_string("cluster_spec", "", "JSON: role to list of host:port.")
# What processes of a run are that hold no records.
_READ_NOTHING = ("preparing", *liveness.OVER)
_HOSTS = {
    role: flags.DEFINE_string(f"{role}_hosts", "", f"The {role}: host:port, separated by commas.")
    for role in (topology.CHIEF, topology.WORKER, topology.PS)
}


def run_task(run_path: str, records_path: str, task: topology.Task) -> None:
    """Runs one process of the run at `run_path` to its end; the launcher's way in."""
    from trainer import roles  # not before it is known that there are Estimators
    from trainer.export import forked_worker

    if task.job_name == topology.EVALUATOR or not task.cluster:
        forked_worker.fork_ahead(run_path)  # before an op runs
    roles.run(run_folder.RunFolder(run_path), records_path, task)


def main() -> None:
    """Runs one process as the flags say."""
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
    root = storage.make_absolute(_STORAGE.value)
    run = run_folder.RunFolder(run_folder.run_folder(root, _RUN.value))
    with fatal.fail_once(run, task.name, os.environ.get(fatal.SUBMISSION)):
        own_package.provide(os.environ)
        submitted_code.require(os.environ)  # other code may not understand the config
    job = topology.with_counts(config_file.load(_CONFIG.value, _SET.value), task)
    job = gpus.with_replicas(job, gpus.count(os.environ))
    records = _choose_records(job, run, task)
    compatibility.check(job)
    joining.run(jobs.Job(job, run.name, root, run, records), task, started=COMMAND_BEGAN)


def _choose_records(job: config.Config, run: run_folder.RunFolder, task: topology.Task) -> str:
    """Returns the build to train on. While other processes of the run are running, this one was
    started again, and stays with the records that they read; those that prepare read none yet."""
    now = time.time()
    others = [s for name, s in run_folder.read_statuses(run).items() if name != task.name]
    working = any(liveness.find_process_state(run, one, now) not in _READ_NOTHING for one in others)
    moves = job.train.on_new_data != "refuse" and not working
    return builds.find_wanted(_STORAGE.value, job, run, moves=moves)


if __name__ != "__main__":
    # The launcher imports this module once, to have TensorFlow in every process it forks.
    importlib.import_module("trainer.roles")
else:
    cli.run(main, outlives_reader=True, native_log="1")
