"""Runs a job on this machine: preprocessing if needed, then every process of the cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from pipeline import errors, storage
from pipeline.cluster import compatibility, gpus, scaling, tolerance, topology
from pipeline.config import strategy_table
from pipeline.console import figures
from pipeline.jobs import display, run_setup, table_memory
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import base, checks, remote_jobs
from pipeline.processes import environment, isolation, memory
from pipeline.processes.fork_client import ForkServer, StopRequest, run_command
from pipeline.records import builds
from pipeline.runs import run_folder, run_lock, run_record, scalings
from pipeline.runs.run_record import RunRecord
from pipeline.storage import mirror
from pipeline.supervision import (
    exit_reason,
    plan,
    record_keeper,
    restart_policy,
    supervisor,
    watchdog,
)

# Named, not imported: this package knows the stages only by what they read and write.
# `trainer.task` imports it late, to say in one line what is missing.
_PRELOAD = "trainer.roles"
_ENTRY = "trainer.task:run_task"
_PREPROCESSING = (sys.executable, "-m", "pipeline.run_module", "preprocessing.main")


@dataclasses.dataclass(frozen=True)
class LocalLauncher(base.Launcher):
    """A launcher for this machine. The fields are what tests put others in place of."""

    preload: str = _PRELOAD
    entry: str = _ENTRY
    preprocessing: Sequence[str] = _PREPROCESSING
    graces: plan.Graces | None = None
    clock: Callable[[], float] = time.time

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Runs `job` as `base.Launcher` says."""
        there = gpus.list_visible(os.environ)
        each = gpus.gpus_per_process(job.config.cluster, len(there))
        job = dataclasses.replace(job, config=gpus.with_replicas(job.config, min(each, len(there))))
        compatibility.check(job.config)
        compatibility.check_machine(job.config.cluster, len(there))
        network = _choose_network(job)
        children = environment.filter_for_children(os.environ)
        with (
            # Before it a signal interrupts: this may have to wait for the lock.
            run_lock.hold(job.run) as lock,
            run_lock.hold_role(job.run, topology.CHIEF, is_launcher=True),
            StopRequest().install() as stop,
            _log_folder(job) as logs,
        ):
            remote_jobs.refuse_while_going(job.run)
            record = run_setup.open_run(job)
            run_record.note_command(record, started)
            beat = run_record.Heartbeat(record, job.run)
            beat()
            if network.line:
                print(network.line, flush=True)
            server_log = os.path.join(logs, "fork-server.log")
            try:
                # It imports TensorFlow while preprocessing looks whether there is work to do.
                with ForkServer(
                    self.preload,
                    log=server_log,
                    environment=children,
                    held=[lock],
                    isolated=network.isolated,
                ) as server:
                    if job.config.data.has_records:
                        self._preprocess(job, stop, children, beat=beat)
                        pinned = builds.find_run_build(job.storage_root, job.run, job.config.name)
                        job = job.with_records(pinned)
                        contents = run_setup.check_manifest(job)
                        record.manifest = contents.sha256
                        table_memory.check(job.config, self.room(job), contents)
                        job = run_setup.resolve_steps(job, contents)
                    self._train(job, server, stop, beat=beat, logs=logs, started=started)
            except errors.PipelineError as error:
                run_setup.close(job, record, error, stopped=bool(stop.count))
                raise
            run_setup.close(job, record, None, stopped=False)
        return record

    def require(self, job: Job) -> None:
        """Checks that the config can run with the GPUs that are here."""
        compatibility.check_machine(job.config.cluster, len(gpus.list_visible(os.environ)))

    def room(self, job: Job) -> Room | None:
        """Returns what is free on this machine. Without servers, variables may be on GPUs."""
        free = memory.available()
        on_gpus = table_memory.holder(job.config.cluster) != topology.PS and gpus.list_visible(
            os.environ
        )
        if free is None or on_gpus:
            return None
        words = f"{figures.size(free)} of memory are free on this machine"
        return Room(free, words, each=False)

    def checks(self, storage_root: str) -> Iterator[checks.Finding]:
        """Yields, besides the usual, whether processes can listen and how fast the devices are."""
        yield from checks.check_machine(storage_root)

    def _preprocess(
        self,
        job: Job,
        stop: StopRequest,
        children: dict[str, str],
        *,
        beat: run_record.Heartbeat,
    ) -> None:
        """Makes the records, or lets preprocessing see that they are there already."""
        command = [
            *self.preprocessing,
            f"--config={job.run.config_path}",
            f"--storage={job.storage_root}",
            f"--run={job.name}",
        ]
        kills = memory.count_kills()
        code = run_command(command, environment=children, stop=stop, poll=beat)
        if stop.count:
            raise errors.StoppedError(
                f"stopped by {stop.name} while preprocessing. Run the same command again."
            )
        if code < 0:
            cause = exit_reason.cause(None, code, [], kills_before=kills)
            raise errors.RetryableError(f"preprocessing: {cause}. Run the same command again.")
        if code:
            raise errors.ReportedError(code)

    def _train(
        self,
        job: Job,
        server: ForkServer,
        stop: StopRequest,
        *,
        beat: run_record.Heartbeat,
        logs: str,
        started: float,
    ) -> None:
        cluster, record = job.config.cluster, beat.record
        there = gpus.list_visible(os.environ)
        strategy = strategy_table.STRATEGIES[cluster.strategy]
        patience = watchdog.HangLimits(cluster.watchdog_seconds, cluster.watchdog_start_seconds)
        with display.Display(job.config.train.planned_steps) as shown:
            boss = supervisor.Supervisor(
                plan.RunSpec(
                    run=dataclasses.replace(job.run, patience=tolerance.patience(cluster)),
                    records=job.records,
                    entry=self.entry,
                    counts=job.counts,
                    worker_places=scaling.places(cluster),
                    gpus=functools.partial(
                        gpus.share,
                        there=there,
                        each=gpus.gpus_per_process(cluster, len(there)),
                        evaluating=cluster.eval_strategy,
                    ),
                    steps=job.config.train.max_steps,
                    logs=logs,
                    patience=patience,
                    graces=self.graces or plan.Graces(training=cluster.stop_seconds),
                    isolated=server.isolated,
                ),
                server,
                stop,
                observer=record_keeper.Keeper(record, job.run, shown),
                policy=restart_policy.Policy(strategy.restart_unit),
                restarts=record.restarts,
                scaled=functools.partial(_note_scaling, beat, clock=self.clock),
            )
            try:
                boss.run()
                record.reason = run_record.ALL_STEPS if boss.reason == "steps" else boss.reason
            finally:
                _book(job, record, boss, started=started, ended=self.clock())


def _note_scaling(
    beat: run_record.Heartbeat, workers: int, step: int | None, *, clock: Callable[[], float]
) -> None:
    """Puts another number of workers into the record, at once."""
    scalings.note(beat.record, workers, step=step, now=clock())
    beat(at_once=True)


def _choose_network(job: Job) -> isolation.Isolation:
    """A single process opens no port, so its network does not matter."""
    if sum(job.counts[role] for role in (*topology.TRAINING_ROLES, topology.PS)) == 1:
        return isolation.Isolation(False, "")
    return isolation.decide(job.isolate, remote=storage.is_remote(job.run.path))


def _book(
    job: Job, record: RunRecord, boss: supervisor.Supervisor, *, started: float, ended: float
) -> None:
    """Puts what the supervisor has seen into the record."""
    run_record.add_statuses(record, run_folder.read_statuses(job.run))
    pace = boss.pace
    record_keeper.book(record, boss.cluster, pace, started=started, ended=ended)
    training = record.seconds.get("training", 0.0)
    steps = (pace.newest_step or 0) - (pace.start_step or 0)
    examples = steps * topology.examples_per_step(job.config)
    # All steps may have been made before the first word of them.
    record.examples_per_second = round(examples / training, 1) if training > 0 else None


@contextlib.contextmanager
def _log_folder(job: Job) -> Iterator[str]:
    """Yields a local folder for the logs; those of a run on gs:// are in one of this
    machine, and are copied there from time to time."""
    target = storage.parent(job.run.log_path("any"))
    if not storage.is_remote(target):
        storage.makedirs(target)
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="estimator-pipeline-") as folder:
        for name in storage.listdir(target):
            storage.copy(storage.join(target, name), os.path.join(folder, name))
        logs = mirror.Copies()
        logs.add(folder, target)
        with mirror.keep_up(logs):
            yield folder
