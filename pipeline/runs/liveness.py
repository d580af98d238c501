"""Whether a run, or a process of it, is still alive.

A process that was killed leaves its last status as if it were running. On its own machine the lock
of the run and the process numbers tell; from elsewhere, how old the newest sign of life is.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

from pipeline.runs import run_folder, run_lock, run_record
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import RunRecord

UNEVALUATED = "not evaluated yet: start --job_name=evaluator (a script by its TF_CONFIG)"
# The state of a run whose folder was made, and that no command has begun.
NOT_STARTED = "not started"
# The states of a run that has running processes.
AT_WORK = ("starting", "running")
# Those of a process that does no more: it has ended, or gives no sign of life.
OVER = (*run_folder.ENDED, "gone", "silent")
# Those of a process before a run has made its first step.
_BEFORE_STEPS = ("preparing", "starting", "waiting", "serving")


def find_process_state(
    run: RunFolder,
    status: Status,
    now: float,
    *,
    host: str | None = None,
    is_alive: Callable[[int], bool] = run_lock.is_alive,
) -> str:
    """Returns the state of a process: what it said, or `gone` or `silent` if it says no more.

    `host` is where we are; by default, this machine's name.
    """
    if status.state in run_folder.ENDED:
        return status.state
    if status.host == (host or socket.gethostname()) and not is_alive(status.pid):
        return "gone"
    newest = max(status.time, status.seen or 0.0)
    return "silent" if now - newest > run_folder.silence(run) else status.state


def explain_death(run: RunFolder, record: RunRecord, now: float, *, host: str | None = None) -> str:
    """Returns how we know that the launcher of a run is gone; empty if it is there, or cannot be
    told."""
    launcher = record.launcher
    if launcher is None or launcher.seen is None:
        return ""
    who = f"its launcher (pid {launcher.pid} on {launcher.host})"
    if launcher.host == (host or socket.gethostname()):
        with contextlib.suppress(OSError):
            return "" if run_lock.has_launcher(run) else f"{who} is gone"
    if now - launcher.seen <= run_folder.silence(run):
        return ""
    return f"{who} has given no sign of life for {now - launcher.seen:,.0f} s"


def state_of_run(
    run: RunFolder,
    record: RunRecord | None,
    statuses: Mapping[str, Status],
    *,
    now: float,
    host: str | None = None,
) -> tuple[str, str]:
    """Returns the state of a run (not started, starting, running, trained, done, stopped, failed
    or died) and one line on why. What was recorded by hand of an end holds until the run is
    resumed."""
    by_hand = record is None or record.launcher is None
    ended = record is not None and record.status != "running"
    if record is not None and ended and (not by_hand or record.status == "done"):
        return record.state, record.reason
    alive = [
        status
        for status in statuses.values()
        if find_process_state(run, status, now, host=host) not in OVER
    ]
    dead = "" if record is None else explain_death(run, record, now, host=host)
    if record is not None and not by_hand and not dead:
        return "running", record.reason
    if alive:
        starts = all(status.state in _BEFORE_STEPS for status in statuses.values())
        return "starting" if starts else "running", "started by hand"
    if record is not None and ended:
        return record.state, record.reason
    if run.read(run_folder.RESULT) is not None:
        stopped = run_record.reason_of_end(run) == run_folder.STOP_REQUESTED
        return ("stopped", run_folder.STOP_REQUESTED) if stopped else ("done", "")
    chief = statuses.get("chief-0")
    if chief is not None and chief.state in ("stopped", "failed"):
        return chief.state, chief.error or ""
    if by_hand and run.read(run_folder.TRAINING_DONE) is not None:
        return "trained", UNEVALUATED
    if record is None and not statuses and _holds_nothing_of_its_own(run):
        return NOT_STARTED, "no process of it has begun"
    return "died", dead or "no process of it is alive"


def _holds_nothing_of_its_own(run: RunFolder) -> bool:
    """Tells if all checkpoints of a run, if there are any, are those of the run it was copied
    from."""
    step = run_folder.find_saved_step(run)
    return step is None or step == (run.read(run_folder.COPIED) or {}).get("step")
