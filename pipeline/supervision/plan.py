"""What a supervisor is given: what to run, how patient to be, and where to report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import watchdog


class Observer(Protocol):
    """Where a supervisor reports what happens."""

    def show_line(self, line: str) -> None:
        """Shows one line."""

    def show(self, statuses: Mapping[str, Status]) -> None:
        """Shows how far the processes are; called a few times a second."""


@dataclasses.dataclass(frozen=True)
class Graces:
    """Seconds given after SIGTERM, before SIGKILL; `stragglers` is how long workers may run
    after the chief has ended. `training` is `cluster.stop_seconds`; a save that is under way then
    is finished all the same."""

    training: float = 30.0
    evaluator: float = 5.0
    ps: float = 2.0
    stragglers: float = 60.0
    poll: float = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What to run: `entry` is called in each process with the run's path, the path of the records
    (or what else it takes) and the `Task`. `logs` is a local folder."""

    run: RunFolder
    records: str
    entry: str
    counts: Mapping[str, int]
    steps: int
    logs: str
    patience: watchdog.HangLimits = dataclasses.field(default_factory=watchdog.HangLimits)
    graces: Graces = dataclasses.field(default_factory=Graces)
    # For how many workers the cluster has addresses, if that is for more than it starts with.
    worker_places: int = 0
    # Returns which GPUs a process sees; `None` for all that this one does.
    gpus: Callable[[topology.Task], Sequence[str] | None] = lambda task: None
    # True if no process outside the run can reach its ports.
    isolated: bool = False

    @property
    def stopping(self) -> str:
        """What the processes do when they are asked to stop, for people."""
        return "saving and stopping"

    def build_stopped_error(self, by: str) -> errors.StoppedError:
        """Returns what ends a run that was stopped `by` a signal."""
        step = run_folder.find_saved_step(self.run)
        saved = "before anything was saved" if step is None else f"saved at step {step:,}"
        return errors.StoppedError(
            f"stopped by {by}, {saved}. Run the same command again to resume."
        )

    def reason_of_end(self, steps: int) -> str:
        """Returns why training has ended: "steps", or what the chief reports as the reason.

        `steps` are those that were to be made, as far as is known in the end. Raises
        `PipelineError` without a result, `ModelError` if steps are missing for no reason.
        """
        result = self.run.read(run_folder.RESULT)
        if result is None:
            raise errors.PipelineError("all processes exited with 0, but there is no result")
        done = self.run.read(run_folder.TRAINING_DONE) or {}
        reason = str(done.get("reason", "steps"))
        if reason == "steps" and result["final_step"] < steps:
            raise errors.ModelError(f"training ended at step {result['final_step']} of {steps}")
        return reason
