"""A run whose checkpoint does not tell what has been read of the records: refused, or resumed.

It may be of records that have changed since, of a version with another ledger, or of a program that
keeps none. To resume, the chief writes it again with all it has learned and an epoch that begins.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from pipeline import config, storage
from pipeline.cluster import topology
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files, checkpoint_list
from trainer.distribution import sessions
from trainer.exactly_once import saved_counts
from trainer.input import epoch_order
from trainer.monitoring.status_reporter import Reporter


def reconcile(
    job: config.Config, run: RunFolder, blocks: epoch_order.Blocks, *, reporter: Reporter
) -> None:
    """Makes the newest checkpoint one of `blocks`, if it is not and `train.on_new_data` permits.

    To be called by the chief only, before any other process looks at a checkpoint. Raises
    `DataError` if it does not permit that.
    """
    checkpoint = checkpoint_files.find_newest(run.path)
    why = None if checkpoint is None else saved_counts.find_mismatch(checkpoint, blocks)
    if checkpoint is None or why is None:
        return
    if job.train.on_new_data == "refuse":
        saved_counts.read_counts(checkpoint, blocks)  # raises
    step = checkpoint_files.read_step(checkpoint)
    values = read_values(checkpoint)
    applied = int(np.sum(values.get(saved_counts.APPLIED, 0), dtype=np.int64))
    values |= saved_counts.build_unread(blocks)
    # Under another name, so that a kill leaves the old one whole.
    written = storage.join(run.path, f"restarted-{blocks.identity:x}.ckpt-{step}")
    write_checkpoint(values, written)
    older = [path for path in checkpoint_list.read(run.path) if path != written]
    checkpoint_list.write(run.path, [written, *older])
    note = (
        f"the checkpoint of step {step:,} {why}; keeping what it has learned, and starting an "
        f"epoch of {blocks.total_records:,} records ({applied:,} had been applied)"
    )
    tf.get_logger().warning(note)
    reporter.add_note(note)
    reporter.note(new_data={"step": step, "applied": applied})


def read_values(checkpoint: str) -> dict[str, np.ndarray]:
    """Returns all variables of a checkpoint, by name."""
    reader = tf.train.load_checkpoint(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write_checkpoint(values: dict[str, np.ndarray], path: str) -> None:
    """Writes variables as a checkpoint, without an index of checkpoints."""
    names = sorted(values)
    # The first session of a process sets up its threads: as those that train would.
    settings = sessions.build_session_config(topology.Task(topology.CHIEF, 0))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=settings) as session:
        holders = [tf.compat.v1.placeholder(values[n].dtype, values[n].shape) for n in names]
        save = tf.raw_ops.SaveV2(
            prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), tensors=holders
        )
        session.run(save, dict(zip(holders, (values[n] for n in names), strict=True)))
