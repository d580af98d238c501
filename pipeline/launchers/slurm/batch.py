"""What the script of a training job runs, on the first node of its allocation.

It checks the nodes, preprocesses if needed, and starts a step with a task for each process; a step
that is lost is started again, on other ports. Before the time limit it has all processes save, and
puts the job into the queue again. It writes how the run ended, whether or not anybody follows it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import sys
import time
from typing import Any

from pipeline import errors, storage, versions
from pipeline.cluster import scaling, tolerance, topology
from pipeline.jobs import job as jobs
from pipeline.jobs import run_setup
from pipeline.jobs.job import Job
from pipeline.launchers import inline_config
from pipeline.launchers.slurm import (
    agent,
    commands,
    elements,
    extra_workers,
    output,
    places,
    requeues,
    step_end,
    step_watch,
    steps,
)
from pipeline.launchers.slurm.settings import Slurm
from pipeline.processes import environment, memory
from pipeline.processes.fork_client import StopRequest, run_command
from pipeline.records import builds
from pipeline.runs import fatal, run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import Restart, RunRecord
from pipeline.supervision import exit_reason, restart_policy

_PREPROCESSING = (sys.executable, "-m", "pipeline.run_module", "preprocessing.main")

_POLL = 2.0  # seconds
# How long the job waits for the submitting command to record its number.
_SUBMITTER = 30.0


class JobAttempt:
    """One start of a job: the first, or one from the queue again."""

    def __init__(self, job: Job, record: RunRecord, number: str, *, stop: StopRequest) -> None:
        self._job, self._record, self._number, self._stop = job, record, number, stop
        self._run = job.run
        self._policy = restart_policy.Policy("gang")
        self._recoveries: list[restart_policy.Recovery] = []
        self._noted: dict[str, int] = {}
        self._tasks = step_watch.task_names(job.counts)

    def work(self) -> None:
        """Returns when the run is done. Raises the `PipelineError` of what went wrong."""
        slurm = Slurm.of(self._job.config)
        allocation = steps.Allocation(
            self._run,
            self._job.storage_root,
            steps.nodes_of(os.environ),
            self._job.counts,
            os.environ["SLURM_JOB_ID"],
            slurm.cpus,
            scaling.count_spare_places(self._job.config.cluster),
            step_end.seconds_per_action(self._job.config.cluster),
        )
        self._places = places.WorkerSlots(allocation, self._record)
        self._run.write(agent.CURRENT, {"start": agent.start_of(os.environ)})
        names = ", ".join(node.name for node in allocation.nodes)
        print(f"{allocation.processes} processes on {names}", flush=True)
        ports = functools.partial(
            allocation.ports, lowest=slurm.first_port, highest=slurm.last_port, wait=self._pause
        )
        first = ports(0)
        self._preprocess()
        self._settle_records()
        attempt = 0
        while not self._run_step(allocation, first):
            attempt += 1
            first = ports(attempt)
        self._record.reason = run_record.reason_of_end(self._run)

    def _preprocess(self) -> None:
        """Makes the records, or lets preprocessing see that they are there already."""
        command = [
            *_PREPROCESSING,
            f"--config={self._run.config_path}",
            f"--storage={self._job.storage_root}",
            f"--run={self._job.name}",
            f"--num_workers={steps.processors(os.environ)}",
        ]
        children = environment.filter_for_children(os.environ)
        kills = memory.count_kills()
        code = run_command(command, environment=children, stop=self._stop)
        self._check_stop()
        if code < 0:
            cause = exit_reason.cause(None, code, [], kills_before=kills)
            raise errors.RetryableError(f"preprocessing: {cause}. Run the same command again.")
        if code:
            raise errors.build_from_exit_code(
                code, "preprocessing failed: see make logs ROLE=slurm"
            )

    def _settle_records(self) -> None:
        pinned = builds.find_run_build(self._job.storage_root, self._run, self._job.config.name)
        self._job = self._job.with_records(pinned)
        contents = run_setup.check_manifest(self._job)
        self._record.manifest = contents.sha256
        self._job = run_setup.resolve_steps(self._job, contents)
        run_record.write(self._run, self._record)

    def _run_step(self, allocation: steps.Allocation, first: int) -> bool:
        """Runs all processes once; returns false if they are to be started again."""
        for name in (agent.CLUSTER, agent.LOST, run_folder.TRAINING_DONE, agent.RESTARTS, "status"):
            self._run.remove(name)
        self._noted = {}
        command = allocation.command(gpus=Slurm.of(self._job.config).gpus)
        with (
            self._places.open(first),
            steps.start_step(command, allocation.variables(first)) as step,
        ):
            watch = step_watch.StepWatch(self._job, self._number, step)
            self._follow(step, watch)
        self._run.remove(agent.CLUSTER)
        self._observe()
        self._check_stop()
        self._check_fatal()
        lost = self._run.read(agent.LOST)
        is_done = lost is None and watch.cause is None and step.returncode == 0
        if is_done and self._run.read(run_folder.RESULT) is not None:
            return True
        if not requeues.has_job(self._run, self._number, wait=self._pause):
            raise errors.StoppedError("Slurm has ended this job, or put it into the queue again")
        if is_done:
            raise errors.PipelineError(
                f"all processes exited with 0, but there is no {run_folder.RESULT}"
            )
        self._start_again(lost, step.returncode, hang=watch.cause)
        step_end.end_left_over(self._number, wait=self._pause)
        return False

    def _follow(self, step: subprocess.Popen[bytes], watch: step_watch.StepWatch) -> None:
        """Returns when the step has ended; asks it to once the job is asked to."""
        looking = tolerance.Tolerance("reading what the processes report")
        while step.poll() is None:
            self._stop.wait(_POLL)
            with looking.survive():
                self._places.look()
                self._observe()
                watch.look()
            if self._stop.count:
                watch.stop()
            watch.proceed()

    def _observe(self) -> None:
        """Takes note of processes that were started again, and of what it has cost."""
        statuses = run_folder.read_statuses(self._run)
        for name in (*self._tasks, *self._places.names):
            found = (self._run.read(f"{agent.RESTARTS}/{name}.json") or {}).get("restarts", [])
            for one in found[self._noted.get(name, 0) :]:
                self._note_restart(one, name)
            self._noted[name] = len(found)
        going = [one for one in self._recoveries if not one.see(statuses)]
        if len(going) < len(self._recoveries):
            run_record.write(self._run, self._record)  # what it has cost is known now
        self._recoveries = going

    def _note_restart(self, one: dict[str, Any], name: str) -> None:
        again = f"in {one['delay']:g} s" if one["delay"] else "now"
        print(f"{name}: {one['cause']}; starting it again {again}", flush=True)
        restart = Restart.model_validate(one)
        self._record.restarts.append(restart)
        self._recoveries.append(
            restart_policy.Recovery(
                restart, wall_time=one["time"], known=self._read_statuses(one["time"])
            )
        )
        run_record.write(self._run, self._record)

    def _read_statuses(self, lost: float) -> dict[str, run_folder.Status]:
        """Returns what processes say, but of those that have continued since the time `lost`."""
        return {
            name: status
            for name, status in run_folder.read_statuses(self._run).items()
            if status.continued is None or status.continued["time"] <= lost
        }

    def _check_fatal(self) -> None:
        found = step_watch.find_fatal(self._run)
        if found is not None:
            text = f"{found['task']}: {found['error']}"
            raise errors.build_from_exit_code(int(found["exit_code"]), text)

    def _check_stop(self) -> None:
        if self._stop.count:
            step = run_folder.find_saved_step(self._run)
            saved = "before anything was saved" if step is None else f"saved at step {step:,}"
            raise errors.StoppedError(
                f"stopped by {self._stop.name}, {saved}. Run the same command again to resume."
            )

    def _start_again(
        self, lost: dict[str, Any] | None, code: int, *, hang: str | None = None
    ) -> None:
        """Takes note of a lost step, which was ended for a `hang` if there is one. Raises the
        `PipelineError` of one that is not to be started again."""
        name = lost["task"] if lost else "chief-0"
        cause = lost["cause"] if lost else f"its Slurm step ended with exit code {code}"
        if hang is not None:
            cause = hang
        elif lost is None and code in errors.FINAL_CODES:  # a task failed before it could record it
            error = output.find_last_error(self._run) or "see make logs ROLE=slurm"
            raise errors.build_from_exit_code(code, f"{cause}: {error}")
        if lost and lost["final"]:
            raise errors.build_from_exit_code(int(lost["code"]), f"{name}: {cause}")
        role, _, index = name.rpartition("-")
        reached = run_folder.find_saved_step(self._run)
        worked = bool(lost["worked"]) if lost else True
        loss = restart_policy.Loss(
            topology.Task(topology.CHIEF, 0),  # whichever it was, all are started again
            int(lost["code"]) if lost else errors.RetryableError.exit_code,
            cause,
            worked,
            stalled=True,
            reached=reached,
        )
        decision = self._policy.decide(loss, time.monotonic())
        if decision.action == "fail":
            note = f"; {decision.note}" if decision.note else ""
            raise errors.build_from_exit_code(decision.code, f"{name}: {cause}{note}")
        print(f"{name}: {cause}; starting all processes again", flush=True)
        newest = agent.find_newest_step(self._run)
        when = lost["time"] if lost else time.time()
        restart = Restart(
            role=role,
            index=int(index),
            cause=cause,
            step=reached if newest is None else newest,
            time=when,
            gang=True,
        )
        self._record.restarts.append(restart)
        known = run_folder.read_statuses(self._run)
        self._recoveries = [
            restart_policy.Recovery(restart, wall_time=when, known=known, gang=True)
        ]
        run_record.write(self._run, self._record)
        self._pause(decision.delay)

    def _pause(self, seconds: float) -> None:
        """Waits. Raises `StoppedError` as soon as the job is asked to end."""
        self._stop.wait(seconds)
        self._check_stop()


def _begin_record(job: Job, number: str) -> RunRecord:
    """Begins a run whose script was submitted by hand, as the submitting command would. Raises
    `UsageError` if another job of it has not ended."""
    other = run_record.job_at_work(run_record.read(job.run))
    if other is not None and commands.state(other.removeprefix(commands.JOB))[0] not in (
        commands.ENDED
    ):
        raise errors.UsageError(
            f"run {job.name!r}: is running as job {other.removeprefix(commands.JOB)} already. End "
            "it with make stop, or use another RUN="
        )
    storage.makedirs(job.run.path)
    record = run_setup.open_run(job)
    job.run.remove(fatal.MARKER)
    fatal.begin(job.run, os.environ[fatal.SUBMISSION])
    record.job = f"{commands.JOB}{number}"
    run_record.write(job.run, record)
    return record


def _await_record(job: Job, number: str) -> RunRecord:
    """Returns the record of the run once the submitting command has written the job's number there
    and has let go of the run; if that was lost, one that says so itself."""
    deadline = time.monotonic() + _SUBMITTER
    while time.monotonic() < deadline:
        record = run_record.read(job.run)
        if record is not None and record.job == f"{commands.JOB}{number}":
            return record
        time.sleep(0.2)
    record = run_record.read(job.run) or run_record.begin(job.config, job.run)
    record.status, record.job = "running", f"{commands.JOB}{number}"
    return record


def _close(
    job: Job,
    record: RunRecord,
    error: errors.PipelineError | None,
    *,
    stopped: bool,
    started: float,
) -> None:
    """Records the end; the time is that since the submission, whatever starts it took."""
    statuses = run_folder.read_statuses(job.run)
    run_record.add_statuses(record, statuses)
    steps_made = [s.step for s in statuses.values() if s.step is not None]
    record.final_step = max(steps_made, default=None)
    record.seconds["total"] = round(time.time() - (record.started or started), 3)
    run_setup.close(job, record, error, stopped=stopped)
    extra_workers.withdraw_all(job.run)


def _plan(run: RunFolder, storage_root: str, index: int | None, *, by_hand: bool) -> Job:
    """Returns the job of a run by its config; of a script that was submitted by hand, by the one in
    it, which of an array is that of all its runs."""
    if not by_hand:
        run = run if index is None else elements.folder_of(run, index)
        return jobs.plan(run.config_path, [], run=run.name, storage_root=storage_root)
    job = jobs.plan(
        inline_config.NAME, [], run=run.name, storage_root=storage_root, look=index is None
    )
    return job if index is None else elements.run_of(job, index)


def run_part(run: RunFolder, storage_root: str, *, index: int | None = None) -> None:
    """Runs the job of a run in the allocation that this process is in; that of an `index` of the
    array `run`, if it is one."""
    started, number = time.time(), os.environ["SLURM_JOB_ID"]
    if index is not None:
        number = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{index}"
    elif "SLURM_ARRAY_JOB_ID" in os.environ:
        raise errors.UsageError(
            f"job {number} is one of an array, all of which would be run {run.name!r}. Submit the "
            "script without --array and SBATCH_ARRAY_INX, or use slurm.array"
        )
    versions.require_estimators()
    again = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    by_hand = inline_config.VARIABLE in os.environ and not again
    job = _plan(run, storage_root, index, by_hand=by_hand)
    patient = dataclasses.replace(job.run, patience=tolerance.patience(job.config.cluster))
    job = dataclasses.replace(job, run=patient)
    print(f"job {number}" + (f", start {again + 1}" if again else ""), flush=True)
    with StopRequest().install() as stop:
        record = _begin_record(job, number) if by_hand else _await_record(job, number)
        record.status, record.reason, record.exit_code = "running", "training", None
        try:
            JobAttempt(job, record, number, stop=stop).work()
        except errors.PipelineError as error:
            if not requeues.has_job(job.run, number):
                raise  # there is nothing to record
            if stop.count:
                why = requeues.end_asked(job, number)
                if why is None:
                    raise
                error = errors.StoppedError(f"{error} ({why})")
            _close(job, record, error, stopped=bool(stop.count), started=started)
            raise error from None
        _close(job, record, None, stopped=False, started=started)
