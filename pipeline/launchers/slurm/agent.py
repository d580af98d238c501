"""Looks after one process of a training job: a task of its Slurm step.

Where each process is restarted alone it starts a lost one again, with the same policy as the local
launcher. It ends with another code than 0 only if all processes are to be started again, or the
job is to fail: then Slurm ends the other tasks of the step. SIGTERM goes to the process once, which
saves; the task then ends with 0, so that the others have the time to save as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import errors, storage
from pipeline.cluster import gpus, topology
from pipeline.config import strategy_table
from pipeline.launchers.slurm import ranks
from pipeline.launchers.slurm.settings import Slurm
from pipeline.processes import environment, memory, parent_death
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import restart_policy, watchdog
from pipeline.supervision.members import Member

_TRAINER = "trainer.task"
# What a task leaves when it ends a step: `Lost`.
LOST = "slurm/lost.json"
# The start of the job that the run belongs to: {"start": `start_of`}.
CURRENT = "slurm/start.json"
_LOOK = 5.0  # seconds between looks at it
# Where the processes of the newest step are, for workers that join: {"step": `step_of`,
# "cluster": {role: [address]}}. There is none between two steps.
CLUSTER = "slurm/cluster.json"
# In this folder each task keeps the restarts of its process: {"restarts": [run_record.Restart]}.
RESTARTS = "slurm/restarts"
# Where the output of processes goes, libraries' included.
OUTPUT = "slurm"


@dataclasses.dataclass(frozen=True)
class Lost:
    """The process whose end has ended a step, and when, in Unix time; `final` if it must not be
    started again: then `code` is that of the run."""

    step: str
    task: str
    code: int
    cause: str
    worked: bool
    final: bool
    time: float


class Agent:
    """One task of a step. `unit` is what is started again when a process is lost."""

    def __init__(
        self,
        run: RunFolder,
        storage_root: str,
        task: topology.Task,
        *,
        stop: StopRequest,
        look_seconds: float = _LOOK,
        command: Sequence[str] = (),
    ) -> None:
        """Looks every `look_seconds` whether the job has been started again without it. `command`
        runs in place of the trainer, if it is given."""
        self._look_seconds, self._given = look_seconds, command
        self._run, self._root, self._task, self._stop = run, storage_root, task, stop
        cluster = run.read_config().cluster
        unit = strategy_table.STRATEGIES[cluster.strategy].restart_unit
        self._unit = "task" if task.job_name == topology.EVALUATOR else unit
        self._policy = restart_policy.Policy(unit)
        self._counts, self._stop_seconds = topology.role_counts(cluster), cluster.stop_seconds
        self._restarts: list[dict[str, Any]] = []
        self._log = os.path.join(_make_local_folder(run), f"{task.name}.out")
        self._over, self._leaves = False, False

    def work(self) -> int:
        """Returns the exit code of the task: 0 if its process has done its part, or was asked to
        stop."""
        while self._wait_until_wanted():
            member = Member(self._task.job_name, self._task.task_index, self._task, self._log)
            code = self._run_process(member)
            storage.sweep(self._run.path, member.pid)
            if self._is_asked or (code not in errors.FINAL_CODES and self._is_over(code)):
                break
            if self._leaves and code not in errors.FINAL_CODES:
                print(f"{self._task.name}: has left", flush=True)
                continue
            loss = member.loss(
                self._run, code, newest_step=find_newest_step(self._run), unit=self._unit
            )
            decision = self._policy.decide(loss, time.monotonic())
            if decision.action == "fail" or loss.port_taken or self._unit == "gang":
                return self._give_up(loss, decision)
            self._note(loss, decision)
            self._stop.wait(decision.delay)
        return 0

    @property
    def _is_asked(self) -> bool:
        """True if the task is to end."""
        return self._over or bool(self._stop.count)

    def _wait_until_wanted(self) -> bool:
        """Returns once the process is to run; false if the task is to end instead."""
        while not self._is_asked and not self._is_wanted():
            if self._run.read(run_folder.TRAINING_DONE) is not None or self._is_left_over():
                return False
            self._stop.wait(self._look_seconds)
        return not self._is_asked

    def _find_hang(self) -> watchdog.Hang | None:
        """Returns why the process makes no progress, where nobody else looks at that."""
        return None

    def _is_wanted(self) -> bool:
        """True unless the run was asked for fewer workers."""
        if self._task.job_name != topology.WORKER or self._unit == "gang":
            return True
        record = run_record.read(self._run.impatient)
        return record is None or self._task.task_index < record.topology.get(topology.WORKER, 0)

    def _run_process(self, member: Member) -> int:
        """Runs the process to its end; returns its exit code, or minus the number of a signal."""
        with open(self._log, "ab") as log:
            member.log_start, member.kills_before = log.tell(), memory.count_kills()
            process = subprocess.Popen(
                self._given or self._build_command(),
                env=self._build_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # signals of Slurm reach it through us alone
                preexec_fn=parent_death.arrange(),
            )
        member.pid = process.pid
        asked, looked, self._leaves, leaves_by = False, time.monotonic(), False, 0.0
        while process.poll() is None:
            self._stop.wait(0.2)
            if time.monotonic() - looked >= self._look_seconds:
                looked = time.monotonic()
                if self._is_left_over() or self._is_lost():
                    self._over = True
                    process.kill()
                elif (hang := self._find_hang()) is not None:
                    member.hang = hang
                    process.kill()
                elif not asked and not self._is_wanted():
                    self._leaves = asked = True
                    leaves_by = looked + self._stop_seconds
                    process.send_signal(signal.SIGTERM)
            if self._leaves and time.monotonic() >= leaves_by:
                process.kill()
            if self._stop.count and not asked:
                asked = True
                process.send_signal(signal.SIGKILL if self._is_lost() else signal.SIGTERM)
        return process.returncode

    def _build_command(self) -> list[str]:
        spec = {role: list(members) for role, members in self._task.cluster.items()}
        place = [f"--cluster_spec={json.dumps(spec)}"] if spec else []
        return [
            sys.executable,
            "-m",
            "pipeline.run_module",
            _TRAINER,
            f"--config={self._run.config_path}",
            f"--run={self._run.name}",
            f"--storage={self._root}",
            f"--job_name={self._task.job_name}",
            f"--task_index={self._task.task_index}",
            *place,
        ]

    def _build_environment(self) -> dict[str, str]:
        given = environment.filter_for_children(os.environ)
        on_this_node = self._tasks_here()
        role = self._task.job_name
        processors = environment.processors()
        shared = environment.build_for_role(
            role, given, processors=processors, trainers=on_this_node
        )
        devices = Slurm.of(self._run.read_config()).gpus
        promised = {gpus.PROMISED: str(devices)} if devices and role != topology.PS else {}
        return given | shared | promised | {watchdog.WATCHED: "1"}  # by the job

    def _tasks_here(self) -> int:
        """Returns how many tasks of the step this node has."""
        counts = ranks.parse_node_counts(os.environ["SLURM_STEP_TASKS_PER_NODE"])
        return counts[int(os.environ["SLURM_NODEID"])]

    def _is_over(self, code: int) -> bool:
        """True if the process has done its part: it ended well, or there is only left to evaluate.
        A parameter server has only once training is over."""
        role = self._task.job_name
        if code == 0 and role != topology.PS:
            return True
        if role == topology.EVALUATOR or not self._counts[topology.EVALUATOR]:
            return False
        return self._run.read(run_folder.TRAINING_DONE) is not None

    def _is_lost(self) -> bool:
        """True if another task has ended this step: there is nothing to save then. Slurm, which
        ends all tasks, may not have learned of it."""
        with contextlib.suppress(errors.PipelineError):
            found = self._run.read(LOST)
            return found is not None and found["step"] == step_of(os.environ)
        return False

    def _is_left_over(self) -> bool:
        """True if the job was started again without this node, which Slurm could not reach: what
        this process writes would get in the way of others."""
        with contextlib.suppress(errors.PipelineError, OSError):
            found = self._run.impatient.read(CURRENT)
            return found is not None and found["start"] != start_of(os.environ)
        return False

    def _give_up(self, loss: restart_policy.Loss, decision: restart_policy.Decision) -> int:
        """Leaves why the step ends, and returns the exit code that ends it."""
        note = f"; {decision.note}" if decision.note else ""
        final = decision.action == "fail" and not loss.port_taken
        code = decision.code if final else errors.RetryableError.exit_code
        cause = f"{loss.cause.rstrip('.')}{note}"
        own = decision.code if final else loss.code
        lost = Lost(
            step_of(os.environ), self._task.name, own, cause, loss.worked, final, time.time()
        )
        with contextlib.suppress(errors.PipelineError):
            if not self._is_lost():  # the first one is the cause of the others
                self._run.write(LOST, dataclasses.asdict(lost))
        print(f"{self._task.name}: {cause}", flush=True)
        return code or 1

    def _note(self, loss: restart_policy.Loss, decision: restart_policy.Decision) -> None:
        self._restarts.append(
            {
                "role": self._task.job_name,
                "index": self._task.task_index,
                "cause": loss.cause,
                "step": find_newest_step(self._run),
                "time": time.time(),
                "delay": decision.delay,
            }
        )
        with contextlib.suppress(errors.PipelineError):
            self._run.write(f"{RESTARTS}/{self._task.name}.json", {"restarts": self._restarts})


def find_newest_step(run: RunFolder) -> int | None:
    """Returns the newest step that a process of the current step of the job has reported."""
    steps = [status.step for status in run_folder.read_statuses(run).values()]
    return max((step for step in steps if step is not None), default=None)


def start_of(variables: Mapping[str, str]) -> str:
    """Returns the name of a start of a job: `job.start`."""
    return ".".join(variables.get(f"SLURM_{name}", "0") for name in ("JOB_ID", "RESTART_COUNT"))


def step_of(variables: Mapping[str, str]) -> str:
    """Returns the name of a step: `job.start.step`. A job that is put into the queue again starts
    to count its steps from 0."""
    return f"{start_of(variables)}.{variables.get('SLURM_STEP_ID', '0')}"


def _make_local_folder(run: RunFolder) -> str:
    """Returns where the output of processes goes: next to the logs of the run; of one on gs://, to
    where the job runs."""
    path = OUTPUT if storage.is_remote(run.path) else storage.join(run.path, "logs", OUTPUT)
    os.makedirs(path, exist_ok=True)
    return path


def run_part(run: RunFolder, storage_root: str) -> None:
    """Looks after the process that this task of the step is to be. Raises `ReportedError` with the
    exit code that ends the step."""
    task = ranks.task_of(os.environ)
    if task.is_chief:
        cluster = {role: list(members) for role, members in task.cluster.items()}
        run.write(CLUSTER, {"step": step_of(os.environ), "cluster": cluster})
    with StopRequest().install() as stop:
        code = Agent(run, storage_root, task, stop=stop).work()
    if code:
        raise errors.ReportedError(code)
