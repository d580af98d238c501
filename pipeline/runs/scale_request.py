"""Asking a run for another number of workers, if there is anybody to ask."""

from __future__ import annotations

from pipeline import errors
from pipeline.cluster import scaling, topology
from pipeline.runs import liveness, run_folder, run_record
from pipeline.runs.run_folder import RunFolder


def ask(run: RunFolder, workers: int, now: float) -> str:
    """Asks the launcher of `run` for `workers` workers, and returns what it does then. Raises as
    `check`."""
    how = check(run, workers, now)
    run.write(run_folder.SCALE, {"workers": workers})
    return how


def check(run: RunFolder, workers: int, now: float) -> str:
    """Returns what `run` does if it is asked for `workers` workers. Raises `UsageError` if it
    cannot have so many, has ended, or its processes are not a launcher's."""
    if run.is_of_script:
        raise errors.UsageError(
            f"run {run.name!r}: runs a script, whose processes are those it was started with; "
            "make stop, then start it again with --workers"
        )
    record = run_record.read(run)
    _check_is_training(run, record, now)
    assert record is not None
    if record.launcher is None:
        raise errors.UsageError(
            f"run {run.name!r}: its roles were started by hand, so start or stop (SIGTERM) workers "
            "there: each for which --cluster_spec has an address may join and leave"
        )
    present = run.read_config()
    scaling.scale(present, workers)
    before = record.topology.get(topology.WORKER, 0)
    if workers == before:
        raise errors.UsageError(f"run {run.name!r}: has as many workers already ({workers})")
    if not scaling.restarts_nothing(present.cluster):
        return f"{before} to {workers} workers; all that train save and start again"
    how = "others join" if workers > before else "those that leave hand back their blocks"
    return f"{before} to {workers} workers; {how}, all others train on"


def _check_is_training(run: RunFolder, record: run_record.RunRecord | None, now: float) -> None:
    if run.read(run_folder.TRAINING_DONE) is not None:
        raise errors.UsageError(f"run {run.name!r}: has ended training; nothing to scale")
    state, reason = liveness.state_of_run(run, record, run_folder.read_statuses(run), now=now)
    if state not in liveness.AT_WORK or record is None:
        why = f": {reason.rstrip('.')}" if reason else ""
        raise errors.UsageError(
            f"run {run.name!r}: is not training ({state}{why}); make train with the same RUN= and "
            "WORKERS= continues it"
        )
