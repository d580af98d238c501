"""How long a run with `train.epochs` trains: what the ledger of its newest checkpoint leaves.

Steps are not enough to go by: after a change of strategy, batch size or number of workers the same
records take another number of them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import compatibility
from pipeline.records import epochs
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input import epoch_order
from trainer.monitoring.status_reporter import Reporter

# Seconds for a file of the chief to be seen from other hosts (NFS may show it late).
_PATIENCE, _POLL = 60.0, 0.5


def decide(
    job: config.Config, run: RunFolder, blocks: epoch_order.Blocks, *, reporter: Reporter
) -> config.Config:
    """Returns `job` with the number of steps its epochs come to, and writes that for all other
    processes. Without epochs returns `job` itself.

    To be called by the chief only, once it is settled which checkpoint training resumes from.
    Raises `UsageError` if a schedule of the learning rate does not fit into so many steps.
    """
    if job.train.epochs is None:
        return job
    checkpoint = checkpoint_files.find_newest(run.path)
    step = 0 if checkpoint is None else checkpoint_files.read_step(checkpoint)
    # Blocks that are left out from now on have no part in what is left.
    included = blocks.due > 0
    read = int(saved_counts.read_counts(checkpoint, blocks).reached[included].sum(dtype=np.int64))
    records = int(blocks.due.sum(dtype=np.int64))
    found = epochs.length(job, records, step=step, read=read)
    run.write(epochs.LENGTH, dataclasses.asdict(found))
    resolved = epochs.with_length(job, found)
    compatibility.check(resolved)
    if found.last != found.whole:
        note = (
            f"{job.train.epochs:g} epochs of {records:,} records: {read:,} have been read by step "
            f"{step:,}, which leaves {found.last - step:,} steps, until step {found.last:,}"
        )
        tf.get_logger().info(note)
        reporter.add_note(note)
    reporter.note(max_steps=resolved.train.max_steps)
    return resolved


def read_decided(
    job: config.Config,
    run: RunFolder,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> config.Config:
    """Returns `job` with the number of steps that the chief has decided on, for all other
    processes; the chief has reported by then. Raises `RetryableError` if it cannot be seen."""
    deadline = clock() + _PATIENCE
    while (found := epochs.set_run_length(job, run)).train.length is None:
        if clock() >= deadline:
            raise errors.RetryableError(
                f"{run.path!r}: {epochs.LENGTH} of the chief has not appeared for {_PATIENCE:g} s. "
                "Run the same command again to resume."
            )
        sleep(_POLL)
    return found
