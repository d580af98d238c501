"""The process that looks after one role of a script: it runs the command, reports how far it is,
and ends as it does.

The command runs in the process group of this process and dies with it. What stock Estimators leave
open is said here: that training is over, and that the evaluator has had its time
(docs/tensorflow-pitfalls.md#evaluator-never-exits).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes import parent_death
from pipeline.runs import run_folder, script_role
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.scripts import script as scripts
from pipeline.scripts.output import LogFollower
from pipeline.scripts.script import Script

ENTRY = f"{__name__}:run_role"

_POLL = 0.5  # seconds between two looks
_GRACE = 5.0  # seconds of an evaluator whose time is over, between SIGTERM and SIGKILL


def run_role(run_path: str, script: str, task: topology.Task) -> None:
    """Runs the command in the role of `task` to its end, and ends this process as it did.

    `script` is a `Script` as JSON.
    """
    _Role(RunFolder(run_path), Script.from_json(script), task).run()


class _Role:
    def __init__(self, run: RunFolder, script: Script, task: topology.Task) -> None:
        self._run, self._script, self._task = run, script, task
        self._output = LogFollower(os.path.join(script.logs, f"{task.name}.log"))
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._note: str | None = None
        # Why the command did not end by itself, if it did not.
        self._ended_by_us = ""
        self._written: tuple[object, ...] = ()
        self._news = self._beat = 0.0
        self._first_saved = self._find_saved_step()
        # True once the script has reported by itself: it calls `trainer.run`.
        self._reports_itself = False
        # When the evaluator's time is over.
        self._deadline: float | None = None

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._on_stop)
        self._report()
        self._child = self._start()
        if self._stopped:
            self._child.terminate()
        while (code := self._wait()) is None:
            self._report()
            if self._is_overdue():
                code = self._end_overdue(self._child)
                break
        self._output.follow()
        self._close(code)
        _end_like(code)

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopped = True
        if self._child is not None:
            self._child.send_signal(number)

    def _start(self) -> subprocess.Popen[bytes]:
        config = scripts.tf_config(self._script, self._task)
        role = script_role.Role(self._run, os.getpid())
        environment = {**os.environ, **role.variables()}
        environment |= {} if config is None else {"TF_CONFIG": config}
        try:
            return subprocess.Popen(
                self._script.command,
                env=environment,
                preexec_fn=parent_death.arrange(),  # this process has no threads
            )
        except (OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
            line = f"cannot run {self._script.command[0]!r}: {why}"
            self._report("failed", error=line, exit_code=errors.UsageError.exit_code)
            raise errors.UsageError(line) from None

    def _wait(self) -> int | None:
        assert self._child is not None
        try:
            return self._child.wait(timeout=_POLL)
        except subprocess.TimeoutExpired:
            self._output.follow()
            return None

    def _is_overdue(self) -> bool:
        """True if the evaluator has had its time since the end of training."""
        if self._task.job_name != topology.EVALUATOR or self._reports_itself:
            return False
        limit = self._script.evaluator_seconds
        if self._deadline is None and self._run.read(run_folder.TRAINING_DONE) is not None:
            self._deadline = time.monotonic() + limit
            self._note = f"training has ended; {limit:g} s to evaluate (--evaluator_seconds)"
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _end_overdue(self, child: subprocess.Popen[bytes]) -> int:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_GRACE)
        child.kill()
        child.wait()
        limit = f"{self._script.evaluator_seconds:g} s"
        self._ended_by_us = f"ended {limit} after training (--evaluator_seconds)"
        self._note = f"did not end by itself, {self._ended_by_us}"
        print(f"{self._task.name}: {self._note}", flush=True)
        return 0

    def _close(self, code: int) -> None:
        """Leaves the last report, and after a good end the files that say what is done."""
        if self._has_reported_end():
            return
        if self._stopped:
            line = f"stopped, {_describe_exit(code)}"
            self._report("stopped", error=line, exit_code=errors.RetryableError.exit_code)
            return
        if code < 0:
            return  # the signal says it all
        if code:
            last = f": {self._output.last}" if self._output.last else ""
            self._report("failed", error=f"{_describe_exit(code)}{last}", exit_code=code)
            return
        if self._reports_itself:
            return
        result = {
            "final_step": self._find_step(),
            "metrics": self._read_metrics(),
            "note": self._ended_by_us,
        }
        if self._task.is_chief:
            done = {"final_step": self._find_step(), "reason": "steps"}
            self._run.write(run_folder.TRAINING_DONE, done)
        evaluates = topology.EVALUATOR if self._script.has_evaluator else topology.CHIEF
        if self._task.job_name == evaluates:
            self._run.write(run_folder.RESULT, result)
        self._report("done")

    def _has_reported_end(self) -> bool:
        status = run_folder.read_status(self._run, self._task.name) if self._is_silent() else None
        return status is not None and status.state in run_folder.ENDED

    def _is_silent(self) -> bool:
        """True if the script reports by itself: what is written is not of this object then."""
        if not self._reports_itself and self._written:
            status = run_folder.read_status(self._run, self._task.name)
            self._reports_itself = (
                status is not None and status.pid == os.getpid() and status.time != self._news
            )
        return self._reports_itself

    def _read_metrics(self) -> Mapping[str, Mapping[str, float]]:
        found = self._output.evaluation or {}
        values = {name: value for name, value in found.items() if name != "step"}
        return {"eval": values} if values else {}

    def _find_saved_step(self) -> int | None:
        """Returns the step of the newest checkpoint, for the one who writes them."""
        folder = self._script.find_checkpoint_folder() if self._task.is_chief else None
        if folder is None:
            return None
        with contextlib.suppress(OSError, errors.PipelineError):
            return run_folder.find_saved_step(folder)
        return None

    def _find_step(self) -> int | None:
        if self._task.job_name == topology.EVALUATOR:
            found = self._output.evaluation
            return int(found["step"]) if found else None
        known = [step for step in (self._output.step, self._find_saved_step()) if step is not None]
        return max(known, default=None)

    def _find_state(self, *, stepped: bool) -> str:
        if self._task.job_name == topology.PS:
            return "serving"
        if self._task.job_name == topology.EVALUATOR:
            return "evaluating" if self._output.evaluation else "waiting"
        return "training" if stepped else "starting"

    def _report(self, state: str = "", **end: object) -> None:
        """Writes how it is, if that is news or a sign of life is due; all but the end of a script
        that does so by itself."""
        if self._is_silent() and not end:
            return
        step, saved = self._find_step(), self._find_saved_step()
        goes_on = saved is not None and saved > (self._first_saved or 0)
        stepped = self._output.step is not None or goes_on
        state = state or self._find_state(stepped=stepped)
        trains = self._task.job_name in topology.TRAINING_ROLES
        news = (state, step, self._output.loss, self._output.evaluation, self._note, stepped)
        now = time.time()
        if news == self._written and now - self._beat < run_folder.beat_interval(self._run) / 2:
            return
        self._news = now if news != self._written else self._news
        status = Status(
            self._task.name,
            os.getpid(),
            socket.gethostname(),
            state,
            self._news,
            seen=now,
            step=step if trains else None,
            max_steps=self._script.steps if trains else None,
            loss=self._output.loss if trains else None,
            stepped=stepped and trains,
            evaluation=self._output.evaluation,
            note=self._note,
            **end,  # type: ignore[arg-type]
        )
        with contextlib.suppress(errors.PipelineError, OSError):  # the next one is as good
            run_folder.write_status(self._run, status)
            self._written, self._beat = news, now


def _describe_exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _end_like(code: int) -> NoReturn:
    """Ends this process with the exit code or the signal of another."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
