"""One place in a run's cluster, and the process that fills it: its attempts and their losses."""

from __future__ import annotations

import dataclasses
from typing import Literal

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import exit_reason, restart_policy, watchdog


@dataclasses.dataclass
class Member:
    """A task of the run, with the process that does it at the moment. `log` is a local file."""

    role: str
    index: int
    task: topology.Task
    log: str
    state: Literal["due", "running", "done"] = "due"
    due: float = 0.0
    pid: int = 0
    log_start: int = 0
    # `memory.count_kills` of when this attempt began.
    kills_before: int | None = None
    # When it is killed, in monotonic time, if it was asked to leave the run before.
    leaves_by: float | None = None
    # Why it is being killed, if it hangs.
    hang: watchdog.Hang | None = None

    @property
    def name(self) -> str:
        """How the process is spoken of."""
        return self.task.name

    def tail(self) -> list[str]:
        """Returns the last lines that this attempt of the process has put out."""
        return exit_reason.tail(self.log, self.log_start)

    def loss(
        self, run: RunFolder, code: int, *, newest_step: int | None, unit: Literal["task", "gang"]
    ) -> restart_policy.Loss:
        """Returns what a policy must know about the end of the process with an exit `code`.

        `newest_step` is that of the run, and `unit` what is started again after a loss.
        """
        status = run_folder.read_status(run, self.name)
        if status is not None and status.pid != self.pid:
            status = None  # of an earlier attempt
        stalled = self.hang is not None and self.hang.name is None
        together = stalled or unit == "gang" or self.role == topology.PS
        reached = newest_step if together else _find_step(status)
        evaluating = self.role == topology.EVALUATOR or _has_failed_evaluating(status)
        if evaluating:
            reached = _find_evaluated_step(status)
        cause = self.hang.cause if self.hang else self._find_cause(status, code)
        worked = status is not None and (status.has_stepped or status.evaluation is not None)
        return restart_policy.Loss(
            self.task,
            code,
            cause,
            worked,
            stalled=stalled,
            reached=reached,
            evaluating=evaluating,
        )

    def _find_cause(self, status: Status | None, code: int) -> str:
        return exit_reason.cause(status, code, self.tail(), kills_before=self.kills_before)

    def failure(
        self, loss: restart_policy.Loss, decision: restart_policy.Decision
    ) -> errors.PipelineError:
        """Returns the error of a run that ends because of `loss`."""
        note = f"; {decision.note}" if decision.note else ""
        again = "Run the same command again to resume."
        hint = {errors.RetryableError.exit_code: f" {again}", 1: f" Fix the cause. {again}"}.get(
            decision.code, ""
        )
        cause = f"{self.name}: {loss.cause.rstrip('.')}{note}"
        cause += "" if cause.endswith("?") else "."
        return errors.build_from_exit_code(decision.code, f"{cause}{hint} Log: {self.log}")

    def check_markers(self, run: RunFolder, *, evaluates: bool) -> None:
        """Raises `PipelineError` if a process that ended well has not left the file that says what
        it has done; the chief `evaluates` where there is no evaluator."""
        expected = {
            topology.CHIEF: run_folder.RESULT if evaluates else run_folder.TRAINING_DONE,
            topology.EVALUATOR: run_folder.RESULT,
        }.get(self.role)
        if expected is not None and run.read(expected) is None:
            raise errors.PipelineError(
                f"{self.name}: ended without writing {expected}. Log: {self.log}"
            )


def _find_step(status: Status | None) -> int | None:
    return status.step if status is not None and status.has_stepped else None


def _has_failed_evaluating(status: Status | None) -> bool:
    return status is not None and status.failed_in in run_folder.EVALUATING


def _find_evaluated_step(status: Status | None) -> int | None:
    evaluation = status.evaluation if status is not None else None
    return int(evaluation["step"]) if evaluation else None
