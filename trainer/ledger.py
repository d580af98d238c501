"""How many records of each block have been trained on: the position in the data, and its proof.

The train op counts the records of each batch, so the counts are saved with the weights they
belong to. To resume is to read them and to skip what they count, in any mode and with any number
of processes; and they tell how often each record was used. `tf.data`'s own iterator checkpoints
do not work under strategies (traps B1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import errors
from trainer import checkpoints, order

# The features that tell the block of each record, and which of its records it is; models never see
# them.
BLOCK = "input/block"
RECORD = "input/record"
# The variable in every checkpoint: `[blocks]` int32, records applied since the first epoch began.
APPLIED = "input/applied"


def applied_in(checkpoint: str | None, blocks: order.Blocks) -> np.ndarray:
    """Returns the counts in a checkpoint, `[blocks]`; zeros if there is none.

    Raises `DataError` if they are of other records: those of the run are no longer there.
    """
    number = len(blocks.records)
    if checkpoint is None:
        return np.zeros(number, np.int64)
    checkpoints.step_of(checkpoint)  # a checkpoint that cannot be read is named by this
    reader = tf.train.load_checkpoint(checkpoint)
    if not reader.has_tensor(APPLIED):
        raise errors.DataError(f"checkpoint {checkpoint!r}: does not say what it was trained on")
    applied = reader.get_tensor(APPLIED)
    if len(applied) != number:
        raise errors.DataError(
            f"checkpoint {checkpoint!r}: trained on {len(applied)} blocks of records, there are "
            f"{number} now. Restore the records it was trained on, or choose a new RUN="
        )
    return applied.astype(np.int64)


def variable(name: str, shape: list[int], dtype: tf.DType, *, saved: bool) -> Any:
    """Makes a variable of counts, whole, wherever the strategy puts variables."""
    return tf.compat.v1.get_variable(
        name,
        shape,
        dtype,
        initializer=tf.compat.v1.zeros_initializer(dtype),
        trainable=False,
        use_resource=True,
        partitioner=None,
        collections=None if saved else [],
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def count(applied: Any, blocks: tf.Tensor) -> Any:
    """Returns the op that counts one batch, whose records are of `blocks`, `[batch]` int32.

    Under a strategy every copy of the variable counts the batches of all replicas.
    """
    if not tf.distribute.has_strategy():
        return _add(applied, blocks)
    context = tf.distribute.get_replica_context()
    return context.merge_call(_count_of_all_replicas, args=(applied, blocks))


def _count_of_all_replicas(strategy: Any, applied: Any, blocks: Any) -> Any:
    # Version 1 classes cannot gather; their processes count into the same variable anyway.
    gather = getattr(strategy, "gather", None)
    here = strategy.experimental_local_results(blocks)
    every = gather(blocks, axis=0) if gather else tf.concat(here, axis=0)
    copies = strategy.experimental_local_results(applied)
    return tf.group(*(_add(copy, every) for copy in copies))


def _add(variable: Any, blocks: tf.Tensor) -> Any:
    return tf.raw_ops.ResourceScatterAdd(
        resource=variable.handle, indices=blocks, updates=tf.ones_like(blocks)
    )
