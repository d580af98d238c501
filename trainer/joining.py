"""How a process joins its run when no launcher has started it: one that is started by hand or by a
platform, or is a script of the user's own."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pipeline import config, errors, storage
from pipeline.cluster import tolerance, topology
from pipeline.config import config_file, own_input
from pipeline.jobs import by_hand
from pipeline.jobs import job as jobs
from pipeline.processes import isolation
from pipeline.records import builds
from pipeline.runs import (
    fatal,
    liveness,
    log_writer,
    run_folder,
    run_lock,
    run_record,
    script_role,
    start_patience,
)
from pipeline.supervision import ports, watchdog
from trainer.lifecycle import preflight
from trainer.lifecycle.own_watchdog import OwnWatchdog
from trainer.monitoring.status_reporter import Reporter

if TYPE_CHECKING:
    from trainer.input.script_input import ScriptSpecs


def run(
    wanted: jobs.Job,
    task: topology.Task,
    *,
    started: float,
    script: ScriptSpecs | None = None,
    role: script_role.Role | None = None,
) -> None:
    """Runs `task` of a run to its end, and records that end if no other process does.

    `started` is when this process was, in Unix time. Input and model are those of the config, or of
    a `script`; `estimator-pipeline run`, if that has given it a `role`, holds the run and records
    its end. Raises the `PipelineError` that this process ends by.
    """
    if role is not None:
        _run(wanted, task, lambda: None, script=script, role=role)
        return
    log_writer.keep(wanted.run, task.name)
    ending = by_hand.EndRecorder(wanted, task, started=started)
    with (
        _lock_run(wanted.run, task),
        fatal.fail_once(wanted.run, task.name, os.environ.get(fatal.SUBMISSION)),
        by_hand.record_end(ending),
    ):
        if task.is_chief:
            storage.makedirs(wanted.run.path)
            _remove_statuses(wanted.run, task)
        _run(wanted, task, lambda: _begin(wanted.run, ending), script=script, role=role)


def _run(
    wanted: jobs.Job,
    task: topology.Task,
    begin: Callable[[], None],
    *,
    script: ScriptSpecs | None,
    role: script_role.Role | None,
) -> None:
    """Agrees with the other roles and runs the process to its end. Others see from the start on
    that it is there."""
    from trainer import roles  # not before it is known that there are Estimators

    run, job = wanted.run, wanted.config
    reporter = Reporter(
        dataclasses.replace(run, patience=tolerance.patience(job.cluster)),
        task.name,
        job.train.planned_steps,
        spread=task.spread,
        pid=None if role is None else role.pid,
    )
    reporter.report("preparing")
    reporter.keep_alive()
    patience = start_patience.seconds(os.environ, job.cluster)
    try:
        if role is None:
            _check_port(task)
        if task.is_chief:
            if job.data.has_records:
                if builds.read_pin(run) is None:  # what submits a job warns by itself
                    builds.warn_of_other_inputs(wanted.storage_root, job, wanted.records)
                builds.pin_to(wanted.storage_root, run, job.name, folder=wanted.records)
            _make_ready(run, job, reporter)
            begin()
            preflight.PreflightServer(run, job).start()
        else:
            preflight.check(run, job, task, patience=patience)
        records = builds.find_run_build(wanted.storage_root, run, job.name)
    except errors.PipelineError as error:
        reporter.report("failed", error=str(error), exit_code=error.exit_code)
        raise
    except KeyboardInterrupt:
        reporter.report("stopped", error="stopped", exit_code=errors.RetryableError.exit_code)
        raise
    if task.address and role is None:
        print(isolation.note([task.address]), flush=True)
    if role is None and watchdog.WATCHED not in os.environ:
        OwnWatchdog(run, task, reporter, limits=_build_hang_limits(job, patience)).start()
    roles.run(run, records, task, reporter=reporter, script=script)


def _check_port(task: topology.Task) -> None:
    """Raises `RetryableError` if another program has the port on which this process is to serve."""
    port = int(task.address.rpartition(":")[2] or 0)
    if port and ports.is_taken(port):
        raise errors.RetryableError(
            f"{task.name}: port {port} of this machine: address already in use. End the process "
            "that listens there, or give this one another port, in the cluster of every role"
        )


def _build_hang_limits(job: config.Config, patience: float) -> watchdog.HangLimits:
    """A first step may have to wait for other processes as long as these may take to appear; what
    comes later, such as a save, may not."""
    cluster = job.cluster
    return watchdog.HangLimits(
        step=cluster.watchdog_seconds, start=cluster.watchdog_start_seconds, others=patience
    )


@contextlib.contextmanager
def _lock_run(run: run_folder.RunFolder, task: topology.Task) -> Iterator[None]:
    """Keeps a second chief from a run, and on a disk launchers too: both would write checkpoints;
    and a second evaluator: both would choose the best."""
    with contextlib.ExitStack() as stack:
        if task.is_chief and not storage.is_remote(run.path):
            stack.enter_context(run_lock.hold(run))
        elif task.is_chief or task.job_name == topology.EVALUATOR:
            stack.enter_context(run_lock.hold_role(run, task.job_name))
        yield


def _remove_statuses(run: run_folder.RunFolder, chief: topology.Task) -> None:
    """Removes the reports of processes that are no more, such as those of an earlier start and the
    `chief` before this one. Others may wait already, or train on."""
    now, found = time.time(), run_folder.read_statuses(run)
    living = {
        name
        for name, status in found.items()
        if name != chief.name and liveness.find_process_state(run, status, now) not in liveness.OVER
    }
    for name in storage.listdir(storage.join(run.path, "status")):
        if name.removesuffix(".json") not in living:
            run.remove(f"status/{name}")


def _make_ready(run: run_folder.RunFolder, job: config.Config, reporter: Reporter) -> None:
    """Makes the run folder what the other roles expect."""
    storage.write_text(run.config_path, config_file.dump(job))
    if own_input.is_of_script(job):
        reporter.add_note(own_input.describe(job))
    if not job.data.has_records:
        print(own_input.describe(job), flush=True)
    for line in config_file.warnings(job):
        print(f"warning: {line}", flush=True)


def _begin(run: run_folder.RunFolder, ending: by_hand.EndRecorder) -> None:
    """Begins the record of the run, and removes what an earlier start has left."""
    stale = [run_folder.TRAINING_DONE, run_folder.EXCLUDED]
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
