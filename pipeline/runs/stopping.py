"""Asking a run to end, if there is anybody to ask."""

from __future__ import annotations

import os
import signal
import socket

from pipeline import errors
from pipeline.runs import liveness, run_folder, run_record
from pipeline.runs.run_folder import RunFolder


def ask(run: RunFolder, now: float) -> str:
    """Asks `run` to end, and returns what it does then. Raises `UsageError` if it has ended
    already, however it did, or cannot be asked from here."""
    if run.read(run_folder.TRAINING_DONE) is not None:
        raise errors.UsageError(f"run {run.name!r}: has ended training; nothing to stop")
    statuses = run_folder.read_statuses(run)
    state, reason = liveness.state_of_run(run, run_record.read(run), statuses, now=now)
    if state not in liveness.AT_WORK:
        why = f": {reason.rstrip('.')}" if reason else ""
        raise errors.UsageError(
            f"run {run.name!r}: is not training ({state}{why}); nothing to stop"
        )
    if run.is_of_script:
        return _stop_script(run)
    run.write(run_folder.STOP, {"reason": run_folder.STOP_REQUESTED})
    return "asked to stop; it saves, evaluates and exports before it ends"


def _stop_script(run: RunFolder) -> str:
    """Stops the launcher of a script: nothing in a script looks for a file of ours."""
    record = run_record.read(run)
    assert record is not None and record.launcher is not None, run.path  # it is running
    launcher = record.launcher
    if launcher.host != socket.gethostname():
        raise errors.UsageError(
            f"run {run.name!r}: its launcher (pid {launcher.pid}) is on {launcher.host!r}; stop "
            "it there"
        )
    try:
        os.kill(launcher.pid, signal.SIGTERM)
    except OSError as error:
        raise errors.UsageError(
            f"run {run.name!r}: cannot stop its launcher (pid {launcher.pid}): {error.strerror}"
        ) from None
    return "asked to stop; its processes get SIGTERM"
