"""Workers that join a run while its job continues: each is a job of its own, with one task."""

from __future__ import annotations

import os

from pipeline import errors
from pipeline.cluster import scaling, topology
from pipeline.launchers.slurm import commands, script
from pipeline.runs import fatal
from pipeline.runs.run_folder import RunFolder


def submit(run: RunFolder, storage_root: str, workers: int) -> None:
    """Submits a job for each of `workers` that neither the run's own job nor another has a task
    for. Raises what `commands.submit` does."""
    cluster = run.read_config().cluster
    submission = str((run.read(fatal.BEGUN) or {}).get("submission", ""))
    there = commands.find_jobs_by_comment()
    for index in range(topology.role_counts(cluster)[topology.WORKER], workers):
        if script.comment(run, worker=index) not in there:
            text = script.render_worker(
                run, storage_root, index, submission=submission, folder=os.getcwd()
            )
            commands.submit(text)


def withdraw(run: RunFolder, *, first: int = 0) -> None:
    """Cancels the jobs of workers from the `first` on that have no node yet. Those that run find
    out by themselves."""
    places = scaling.places(run.read_config().cluster)
    there = commands.find_jobs_by_comment() if places else {}
    for index in range(first, places):
        number, word = there.get(script.comment(run, worker=index), ("", ""))
        if word in commands.WAITING:
            commands.cancel(number)


def withdraw_all(run: RunFolder) -> None:
    """Does so at the end of a run, as far as Slurm can be asked: what starts all the same ends at
    once."""
    try:
        withdraw(run)
    except errors.PipelineError as error:
        print(f"note: jobs of workers that were to join stay in the queue: {error}", flush=True)
