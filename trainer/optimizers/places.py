"""Which gradients an update is made of, where it does not wait for those of all processes.

TensorFlow's accumulators each decide by themselves: one may have taken its gradients when those of
a late process come, which count for the next variable, or are averaged in as one more. So a process
that has computed its gradients takes a place in the update under way, of which there are as many as
the update waits for. There is a queue of them; each is the global step it belongs to. Places of an
update are laid out when the one before has been made. Who comes late finds one that is not of its
step, lays it back and hands in nothing: its gradients are dropped, of all variables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Of no step: accumulators drop a gradient of it, and no process is at it.
_NO_STEP = -1
# Milliseconds that the chief waits for the update under way as training ends.
_LAST_WAIT = 10_000


class Places:
    """The places in updates of `number` gradients each, on the server of `step`, the variable."""

    def __init__(self, number: int, step: Any) -> None:
        self._number, self._step = number, step
        with tf.device(step.device):
            self._queue = tf.queue.FIFOQueue(
                -1, [tf.int64], [[]], shared_name="sync_places", name="sync_places"
            )

    def lay_out(self) -> Any:
        """Returns the op that lays out the places of the update that is to be made next."""
        with tf.device(self._step.device):
            step = tf.cast(self._step.read_value(), tf.int64)
            return self._queue.enqueue_many([tf.fill([self._number], step)])

    def take(self, gradients: Sequence[Any], local_step: Any) -> tf.Tensor:
        """Returns whether gradients of `local_step` are part of the update, once they have been
        computed."""
        computed = tf.group(*gradients)
        with tf.device(self._step.device), tf.control_dependencies([computed]):
            place = self._queue.dequeue()
            taken = tf.equal(place, tf.cast(local_step, tf.int64))
            # No branch: it would keep packed_edges from joining what a step sends.
            others = tf.boolean_mask([place], [~taken])
            with tf.control_dependencies([self._queue.enqueue_many([others])]):
                return tf.identity(taken)

    def hold(self) -> tuple[Any, Any, Any]:
        """Returns the ops that take a place, whose it ever is, and lay it back; between them, the
        placeholder for it."""
        place = tf.compat.v1.placeholder(tf.int64, [])
        with tf.device(self._step.device):
            return self._queue.dequeue(), place, self._queue.enqueue(place)

    def end(self) -> Any:
        """Returns the op that lets every process which waits for a place continue without one."""
        with tf.device(self._step.device):
            return self._queue.enqueue(tf.constant(_NO_STEP, tf.int64))


class Standstill:
    """Keeps parameters as they are while they are saved: the chief holds a place meanwhile, without
    which no update is made. The graph is finalized after this."""

    def __init__(self, places: Places) -> None:
        self._hold, self._place, self._lay_back = places.hold()
        self._held: tuple[Any, int] | None = None

    def begin(self, session: Any) -> None:
        """Waits for the update under way, if all its places are taken."""
        self._held = session, session.run(self._hold)

    def begin_last(self, session: Any) -> None:
        """Does so for good: no update is made any more. What makes them may have ended already;
        then there may be no place to wait for either."""
        with contextlib.suppress(tf.errors.DeadlineExceededError):
            session.run(self._hold, options=tf.compat.v1.RunOptions(timeout_in_ms=_LAST_WAIT))

    def end(self) -> None:
        """Lets updates be made again."""
        if self._held is not None:
            session, place = self._held
            session.run(self._lay_back, {self._place: place})
            self._held = None


def choose_step(taken: tf.Tensor, local_step: Any) -> tf.Tensor:
    """Returns the step by which accumulators take gradients, or drop them unless `taken`."""
    step = tf.convert_to_tensor(local_step)
    return tf.where(taken, step, tf.constant(_NO_STEP, step.dtype))
