"""Runs a script on this machine: a process for each role, supervised as those of a job are."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from typing import Literal

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.config import own_input
from pipeline.console import terminal
from pipeline.console.figures import figure
from pipeline.console.progress import duration
from pipeline.jobs import display
from pipeline.jobs.job import Job
from pipeline.processes import environment, isolation
from pipeline.processes.fork_client import ForkServer, StopRequest
from pipeline.reports import writing
from pipeline.runs import run_folder, run_lock, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord
from pipeline.scripts import process
from pipeline.scripts.script import Script
from pipeline.supervision import plan, record_keeper, restart_policy, supervisor, watchdog

# What `run.json` calls the strategy of a script, which is its own.
_STRATEGY = "script"
_ENDED = "the chief ended well"


@dataclasses.dataclass(frozen=True)
class ScriptOptions:
    """How to look after a script: see the flags of `pipeline.commands.run_script`."""

    unit: Literal["task", "gang"]
    stop_seconds: float = 30.0
    watchdog_seconds: float = 0.0
    isolate: isolation.Isolate = isolation.Isolate.OFF


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScriptPlan(plan.RunSpec):
    """The plan of a run whose checkpoints, if there are any, are in a folder of the script's."""

    script: Script | None = None

    @property
    def stopping(self) -> str:
        """Says what a stop is for a script."""
        return "stopping; each process gets SIGTERM"

    def build_stopped_error(self, by: str) -> errors.StoppedError:
        """Returns what ends a run that was stopped `by` a signal."""
        folder = (
            self.script.find_checkpoint_folder() if self.script is not None else None
        ) or self.run
        step = run_folder.find_saved_step(folder)
        saved = "" if step is None else f", the newest checkpoint is of step {step:,}"
        return errors.StoppedError(
            f"stopped by {by}{saved}. Run the same command again; the script decides where it "
            "continues."
        )

    def reason_of_end(self, steps: int) -> str:
        """Returns that the chief has ended, and what had to be ended after it."""
        if not self.run.is_of_script:  # it has called `trainer.run`
            return run_record.reason_of_end(self.run)
        note = str((self.run.read(run_folder.RESULT) or {}).get("note", ""))
        return _ENDED + (f"; evaluator-0 was {note}" if note else "")


def run(script: Script, folder: RunFolder, options: ScriptOptions, *, started: float) -> RunRecord:
    """Returns the record of the run once its chief, workers and evaluator have ended well; every
    process is gone by then. `started` is when the command was, in Unix time.

    Raises the `PipelineError` of what went wrong, after writing it to the record, with the exit
    code of the process that failed.
    """
    _refuse_other_run(folder)
    network = isolation.decide(options.isolate, remote=False)
    with (
        run_lock.hold(folder) as lock,
        StopRequest().install() as stop,
    ):
        record = _open(script, folder)
        run_record.note_command(record, started)
        logs = storage.parent(folder.log_path("any"))
        storage.makedirs(logs)
        script = dataclasses.replace(script, logs=logs)
        if sum(script.counts.values()) > 1:
            print(network.line, flush=True)
        try:
            with ForkServer(
                process.__name__,
                log=os.path.join(logs, "fork-server.log"),
                environment=environment.filter_for_scripts(os.environ),
                held=[lock],
                isolated=network.isolated,
            ) as server:
                _supervise(
                    script,
                    options,
                    server,
                    plan_=_plan(script, folder, options, isolated=network.isolated),
                    stop=stop,
                    record=record,
                    started=started,
                )
        except errors.PipelineError as error:
            _close(record, folder, error, stopped=bool(stop.count))
            raise
        _close(record, folder, None, stopped=False)
    return record


def _refuse_other_run(folder: RunFolder) -> None:
    """Raises `UsageError` for a run of a config, but for one that a script has made."""
    if storage.exists(folder.config_path) and not own_input.is_of_script(folder.read_config()):
        raise errors.UsageError(
            f"run {folder.name!r}: is of a config; use another RUN= for this script"
        )


def _open(script: Script, folder: RunFolder) -> RunRecord:
    """Makes the run folder what the processes expect, and says what is about to happen."""
    earlier = folder.read(run_folder.SCRIPT)
    described = script.describe(os.getcwd())
    record = run_record.begin_as(
        folder,
        config=script.name,
        strategy=_STRATEGY,
        topology=script.counts,
        command=list(map(str, described["command"])),  # type: ignore[call-overload]
    )
    # What earlier processes reported would be taken for news.
    for name in ("status", run_folder.TRAINING_DONE, run_folder.RESULT, run_folder.STOP):
        folder.remove(name)
    folder.write(run_folder.SCRIPT, described)
    run_record.write(folder, record)
    if earlier is not None and earlier.get("command") != described["command"]:
        print("the command of this run has changed since its last start")
    counts = topology.describe_counts(script.counts)
    verb = "starting" if earlier is None else "starting again"
    where = terminal.display_path(folder.path)
    for line in (f"{verb} run {folder.name} in {where}: {counts}", f"each runs: {script.text}"):
        print(terminal.wrap(line, sys.stdout), flush=True)
    return record


def _plan(
    script: Script, folder: RunFolder, options: ScriptOptions, *, isolated: bool
) -> ScriptPlan:
    # A script whose steps are unknown would look as if it hung: only on request.
    limit = options.watchdog_seconds or float("inf")
    return ScriptPlan(
        run=folder,
        records=script.to_json(),
        entry=process.ENTRY,
        counts=script.counts,
        steps=script.steps or sys.maxsize,
        logs=script.logs,
        patience=watchdog.HangLimits(limit, max(limit, watchdog.HangLimits.start)),
        graces=plan.Graces(training=options.stop_seconds),
        isolated=isolated,
        script=script,
    )


def _supervise(
    script: Script,
    options: ScriptOptions,
    server: ForkServer,
    *,
    plan_: ScriptPlan,
    stop: StopRequest,
    record: RunRecord,
    started: float,
) -> None:
    with display.Display(script.steps, is_script=True) as shown:
        boss = supervisor.Supervisor(
            plan_,
            server,
            stop,
            observer=record_keeper.Keeper(record, plan_.run, shown),
            policy=restart_policy.Policy(options.unit, any_code=True),
            restarts=record.restarts,
        )
        try:
            boss.run()
            record.reason = boss.reason
        finally:
            ended = time.time()
            record_keeper.book(record, boss.cluster, boss.pace, started=started, ended=ended)


def _close(
    record: RunRecord, folder: RunFolder, error: errors.PipelineError | None, *, stopped: bool
) -> None:
    calls_us = storage.exists(folder.config_path)  # by `trainer.run`
    run_record.add_statuses(record, run_folder.read_statuses(folder))
    if error is None:
        trained = record.final_step
        run_record.add_result(record, folder)
        if trained is not None and not calls_us:  # an evaluator may know of an earlier step
            record.final_step = trained
    if calls_us:
        record.strategy = folder.read_config().cluster.strategy
    run_record.close(record, folder, error, stopped=stopped)
    if calls_us:
        writing.attempt(folder)


def summary(folder: RunFolder, record: RunRecord) -> str:
    """Returns what is shown when a run is done."""
    if storage.exists(folder.config_path):
        root = storage.parent(storage.parent(folder.path))
        return display.summary(Job(folder.read_config(), folder.name, root, folder, ""), record)
    return "\n".join(
        terminal.wrap(line, sys.stdout, indent=9) for line in _list_lines(folder, record)
    )


def _list_lines(folder: RunFolder, record: RunRecord) -> Iterator[str]:
    step = "" if record.final_step is None else f"step {record.final_step:,}, "
    values = [f"{n} {figure(v)}" for n, v in record.metrics.get("eval", {}).items()]
    yield f"result   {step}{', '.join([record.reason, *values])}"
    yield f"time     {duration(record.seconds['total'])}"
    if record.restarts:
        causes = ", ".join(f"{one.role}-{one.index} ({one.cause})" for one in record.restarts)
        yield f"restarts {causes}"
    where = terminal.display_path(folder.path)
    yield f"run      {where} (run.json has the details)"
    yield f"logs     {where}/logs"
