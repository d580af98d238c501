"""What processes that step together have handed in, and what of it is not yet applied.

A process does not know when the update that its gradients are part of is applied: it continues once
there is a token for it, and if it stands still just then, the chief may save before it could count.
So each hands in what there is to count ahead of its gradients, and the update itself counts it:
there are no tokens for the next step before that, so all that lies here of gradients which are part
of an update belongs to this one. Of gradients that are dropped (`cluster.backup_workers`) it is
counted that their records have been read, not that they were applied.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.exactly_once import counters


class Pending:
    """A queue on the server of the counts, of batches of `batch_size` records.

    `reached` is how far they have been handed in, applied or not, `[blocks]`: a process may have
    no more records for a step while its last ones wait in the queue.
    """

    def __init__(self, counts: counters.Variables, batch_size: int) -> None:
        self._counts = counts
        self._device = counts.reached.device
        with counters.open_server_scope(counts.reached):
            self.reached = counters.make_variable(
                "input/handed_in", list(counts.reached.shape), tf.int32, saved=False
            )
        with tf.device(self._device):
            self._queue = tf.queue.FIFOQueue(
                -1,
                [tf.int32, tf.bool],
                [[batch_size, 3], []],
                shared_name="input/pending",
                name="input/pending",
            )

    def hand_in(self, reads: tf.Tensor, is_part: tf.Tensor) -> Any:
        """Returns the op that hands in what there is to count of a batch, `Variables.stack_reads`,
        and whether its gradients, which go after it, are part of the update.

        How far it reaches is noted only then: what others read after it must be counted after it.
        """
        blocks, places, _ = tf.unstack(reads, num=3, axis=1)
        with (
            tf.device(self._device),
            tf.control_dependencies([self._queue.enqueue([reads, is_part])]),
        ):
            return tf.raw_ops.ResourceScatterMax(
                resource=self.reached.handle, indices=blocks, updates=places
            )

    def count(self) -> Any:
        """Returns the op that counts all that has been handed in."""
        reads, are_part = self.take()
        with tf.device(self._device):
            every = tf.broadcast_to(are_part[:, tf.newaxis], tf.shape(reads)[:2])
            times = tf.cast(tf.reshape(every, [-1]), tf.int32)
            return self._counts.add(tf.reshape(reads, [-1, 3]), times)

    def drop(self) -> Any:
        """Returns the op that forgets what has been handed in and was not counted."""
        with tf.control_dependencies(self.take()):
            return tf.raw_ops.AssignVariableOp(
                resource=self.reached.handle, value=self._counts.reached.read_value()
            )

    def take(self) -> list[tf.Tensor]:
        """Takes all that has been handed in: `[batches, batch, 3]`, and `[batches]`, whether their
        gradients are part of an update."""
        with tf.device(self._device):
            return list(self._queue.dequeue_many(self._queue.size()))
