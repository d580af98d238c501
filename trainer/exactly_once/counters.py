"""How often the records of each block were applied: the position in the data, and its proof.

The train op counts the records of each batch, so the counts are saved with the weights they
belong to. To resume is to read them and to continue behind what they have reached, in any mode
and with any number of processes. `tf.data`'s own iterator checkpoints do not work under strategies
(docs/tensorflow-pitfalls.md#iterator-checkpoints).

Two numbers a block prove exactly once. In each epoch the records of a block have places, the order
they are read in, and one reader at a time reads them, in that order. `reached` is the farthest
place that was applied or dropped, as its gradients came late (`cluster.backup_workers`); `applied`
is how many records were applied. They differ by what was applied again, left out or dropped. What
they cannot show is the update of a process that is killed between applying a batch and counting it:
that batch is read again.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from trainer.exactly_once.saved_counts import (
    APPLIED,
    IDENTITY,
    MOST_READERS,
    REACHED,
    READERS,
    compute_mark,
)
from trainer.input import epoch_order

_COPIES = 5


def make_variable(
    name: str, shape: list[int], dtype: tf.DType, *, saved: bool, value: int = 0
) -> Any:
    """Makes a variable of counts, whole, wherever the strategy puts variables."""
    return tf.compat.v1.get_variable(
        name,
        shape,
        dtype,
        initializer=tf.compat.v1.constant_initializer(value, dtype),
        trainable=False,
        use_resource=True,
        partitioner=None,
        collections=None if saved else [],
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def open_server_scope(first: Any) -> Any:
    """Returns the scope in which variables are made on the server that holds `first`; strategies
    place them by themselves, whatever the device."""
    if tf.distribute.has_strategy():
        return tf.distribute.get_strategy().extended.colocate_vars_with(first)
    return tf.device(first.device)


class Variables:
    """The counts in a graph, which are saved with it. Made once a replica.

    Where processes train while the variables are saved, one after the other, the counts must not be
    ahead of the parameters: what they hold would never be read. Then the train op counts `apart`,
    in variables on one server, which is lost with all of a batch or nothing, and the chief has a
    copy taken before each save (`copy`).
    """

    def __init__(self, blocks: epoch_order.Blocks, *, apart: bool = False) -> None:
        number = len(blocks.records)
        self._live = self._make(number, "/live", saved=False) if apart else []
        self._saved = self._make(number, "", saved=True)
        self.applied, self.reached, self.readers = self._live or self._saved
        make_variable(IDENTITY, [], tf.int64, saved=True, value=compute_mark(blocks))

    @staticmethod
    def _make(number: int, suffix: str, *, saved: bool) -> list[Any]:
        applied = make_variable(APPLIED + suffix, [number], tf.int32, saved=saved)
        with contextlib.nullcontext() if saved else open_server_scope(applied):
            return [
                applied,
                make_variable(REACHED + suffix, [number], tf.int32, saved=saved),
                make_variable(READERS + suffix, [MOST_READERS], tf.int64, saved=saved),
            ]

    def build(self) -> None:
        """Makes the ops for `restore` and `copy`; the graph is finalized after this."""
        pairs = list(zip(self._live, self._saved, strict=True))
        self._restore = [_assign(live, saved) for live, saved in pairs]
        self._copy = [_assign(saved, live) for live, saved in pairs]
        applied, reached, _ = self._saved
        self._excess = tf.reduce_sum(tf.abs(applied.read_value() - reached.read_value()))

    def restore(self, session: Any) -> None:
        """Begins to count where the checkpoint is."""
        session.run(self._restore)

    def copy(self, session: Any) -> None:
        """Copies the counts to where they are saved from.

        Again, while a batch may have been counted in one and not yet in the other.
        """
        before = None
        for _ in range(_COPIES):
            session.run(self._copy)
            excess = int(session.run(self._excess))
            if excess == before or not excess:
                return
            before = excess

    def count(
        self, blocks: tf.Tensor, places: tf.Tensor, rank: int, *, in_turn: tf.Tensor | bool = True
    ) -> Any:
        """Returns the op that counts one batch of reader `rank`; both tensors are `[batch]` int32.

        A batch that is not `in_turn`, because its blocks have been assigned again, was applied all
        the same, but nothing runs after it. Under a strategy every copy of the variables counts
        the batches of all replicas.
        """
        reads = self.stack_reads(blocks, tf.where(in_turn, places, 0), rank)
        if not tf.distribute.has_strategy():
            return self.add(reads)
        context = tf.distribute.get_replica_context()
        args = (self.applied, self.reached, self.readers, reads)
        return context.merge_call(_count_of_all_replicas, args=args)

    @staticmethod
    def stack_reads(blocks: tf.Tensor, places: tf.Tensor, rank: int) -> tf.Tensor:
        """Returns what there is to count of a batch, `[batch, 3]` int32."""
        by = tf.fill(tf.shape(blocks), rank % MOST_READERS)
        return tf.stack([blocks, places, by], axis=1)

    def add(self, reads: tf.Tensor, times: tf.Tensor | None = None) -> Any:
        """Returns the op that counts `reads`, of any number of batches; each as applied so many
        `times`, once if it is not given."""
        return _count(self.applied, self.reached, self.readers, reads=reads, times=times)


def _count_of_all_replicas(strategy: Any, *values: Any) -> Any:
    # Version 1 classes cannot gather; their processes count into the same variable anyway.
    gather = getattr(strategy, "gather", None)
    *variables, here = (strategy.experimental_local_results(value) for value in values)
    every = gather(values[-1], axis=0) if gather else tf.concat(here, axis=0)
    counted = [
        _count(applied, reached, readers, reads=every)
        for applied, reached, readers in zip(*variables, strict=True)
    ]
    return tf.group(*counted)


def _assign(target: Any, source: Any) -> Any:
    return tf.raw_ops.AssignVariableOp(resource=target.handle, value=source.read_value())


def _count(
    applied: Any, reached: Any, readers: Any, *, reads: tf.Tensor, times: tf.Tensor | None = None
) -> Any:
    raw = tf.raw_ops
    # On the server, so that all is there or nothing: a kill must not find a part of it counted.
    with tf.device(applied.device):
        blocks, places, by = tf.unstack(reads, num=3, axis=1)  # what was gathered has no shape
        ones = tf.ones_like(blocks)
        many = tf.cast(ones, tf.int64)
        times = ones if times is None else times
    return tf.group(
        raw.ResourceScatterAdd(resource=applied.handle, indices=blocks, updates=times),
        raw.ResourceScatterMax(resource=reached.handle, indices=blocks, updates=places),
        raw.ResourceScatterAdd(resource=readers.handle, indices=by, updates=many),
    )
