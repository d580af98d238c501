"""What processes that step together have handed in, and what of it is not yet applied.

A process does not know when the update that its gradients are part of is applied: it continues once
there is a token for it, and if it stands still just then, the chief may save before it could count.
So each hands in what there is to count ahead of its gradients, and the update itself counts it:
there are no tokens for the next step before that, so all that lies here belongs to this one.
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
        with counters.server_of(counts.reached):
            self.reached = counters.variable(
                "input/handed_in", list(counts.reached.shape), tf.int32, saved=False
            )
        with tf.device(self._device):
            self._queue = tf.queue.FIFOQueue(
                -1, [tf.int32], [[batch_size, 3]], shared_name="input/pending", name="input/pending"
            )

    def hand_in(self, reads: tf.Tensor) -> Any:
        """Returns the op that hands in `Variables.reads` of a batch; gradients go after it."""
        blocks, places, _ = tf.unstack(reads, num=3, axis=1)
        with tf.device(self._device):
            farther = tf.raw_ops.ResourceScatterMax(
                resource=self.reached.handle, indices=blocks, updates=places
            )
        with tf.control_dependencies([farther]):
            return self._queue.enqueue([reads])

    def count(self) -> Any:
        """Returns the op that counts all that has been handed in."""
        return self._counts.add(tf.reshape(self.take(), [-1, 3]))

    def dropped(self) -> Any:
        """Returns the op that forgets what has been handed in and was not counted."""
        with tf.control_dependencies([self.take()]):
            return tf.raw_ops.AssignVariableOp(
                resource=self.reached.handle, value=self._counts.reached.read_value()
            )

    def take(self) -> tf.Tensor:
        """Takes all that has been handed in, `[batches, batch, 3]`."""
        with tf.device(self._device):
            return self._queue.dequeue_many(self._queue.size())
