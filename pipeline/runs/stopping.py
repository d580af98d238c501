"""Asking a run to end, if there is anybody to ask."""

from __future__ import annotations

from pipeline import errors
from pipeline.runs import liveness, run_folder, run_record
from pipeline.runs.run_folder import RunFolder


def ask(run: RunFolder, now: float) -> None:
    """Asks `run` to end. Raises `UsageError` if it has ended already, however it did."""
    if run.read(run_folder.TRAINING_DONE) is not None:
        raise errors.UsageError(f"run {run.name!r}: has ended training; nothing to stop")
    statuses = run_folder.read_statuses(run)
    state, reason = liveness.state_of_run(run, run_record.read(run), statuses, now)
    if state not in liveness.AT_WORK:
        why = f": {reason.rstrip('.')}" if reason else ""
        raise errors.UsageError(
            f"run {run.name!r}: is not training ({state}{why}); nothing to stop"
        )
    run.write(run_folder.STOP, {"reason": "stop requested"})
