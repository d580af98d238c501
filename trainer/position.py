"""Keeps the input where the parameters are.

What is still to be read follows from how many records of each block have been applied, which the
checkpoint says. Processes share it by rank. On classic parameter servers, which outlive the
processes that train, one that comes back looks at the live counts, and all go back when a new
chief has put the parameters back to a checkpoint.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors, topology
from trainer import feeding, ledger, order

_POLL = 0.1  # seconds
_PATIENCE = 300.0  # seconds for the chief to lay out the backlog
_CLASSIC = ("parameter_server", "parameter_server_sync")


class Position:
    """The position in the training data, of one process.

    `applied` are the counts of the checkpoint that training goes on from. `count` is called while
    the graph is built, the hook's methods afterwards.
    """

    def __init__(
        self, job: config.Config, task: topology.Task, blocks: order.Blocks, applied: np.ndarray
    ) -> None:
        self.task = task
        self.blocks = blocks
        self.seed = job.train.seed
        self.feed = feeding.Feed(blocks)
        self.shared = job.cluster.strategy in _CLASSIC and topology.PS in task.cluster
        if not self.shared:
            # Now, as strategies start to read before the first hook is called.
            self.start(applied, applied)

    def start(self, base: np.ndarray, applied: np.ndarray) -> None:
        """Reads, from the next pipeline on, this process's part of what was left at `base`, less
        what has been applied since."""
        backlog = order.Backlog(self.blocks, self.seed, base)
        self.feed.begin(lambda: self._left(backlog, applied))

    def _left(self, backlog: order.Backlog, applied: np.ndarray) -> Iterator[order.Piece]:
        for piece in feeding.dealt(backlog, self.task.rank, self.task.num_readers):
            records = int(self.blocks.records[piece.block])
            done = int(applied[piece.block]) - piece.epoch * records
            if done < records:
                yield order.Piece(piece.block, piece.epoch, max(0, done))

    def count(self, blocks: tf.Tensor) -> Any:
        """Makes the variables and returns the op that counts a batch; once a replica."""
        number = len(self.blocks.records)
        self.applied = ledger.variable(ledger.APPLIED, [number], tf.int32, saved=True)
        if self.shared:
            self.base = ledger.variable("input/base", [number], tf.int32, saved=False)
            self.generation = ledger.variable("input/generation", [], tf.int64, saved=False)
        return ledger.count(self.applied, blocks)


class PositionHook(tf.compat.v1.train.SessionRunHook):
    """On classic parameter servers, gives each new session its place in the data.

    It must come before the hooks that say that training goes on. A generation is the time from
    one start of the chief to the next; the counts it began with are laid out with it.
    """

    def __init__(self, position: Position) -> None:
        self._position = position

    def begin(self) -> None:
        """Builds the ops; the graph is finalized after this."""
        p = self._position
        self._new_generation = tf.compat.v1.placeholder(tf.int64, [])
        self._lay_out = p.base.assign(p.applied.read_value())
        self._announce = p.generation.assign(self._new_generation)
        self._read_generation = p.generation.read_value()
        self._read_counts = [p.base.read_value(), p.applied.read_value()]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds the position in the variables; the pipeline starts to read after this."""
        p = self._position
        if p.task.is_chief:
            session.run(self._lay_out.op)
            # Last: who sees the new generation sees the counts it began with.
            session.run(self._announce.op, {self._new_generation: secrets.randbits(62)})
        self._generation, counts = self._read(session)
        p.start(*counts)

    def _read(self, session: Any) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        """Returns the generation, the counts it began with and those of now."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                generation = int(session.run(self._read_generation))
                base, applied = session.run(self._read_counts)
                if int(session.run(self._read_generation)) == generation:
                    return generation, (base, applied)
            except tf.errors.FailedPreconditionError:
                time.sleep(_POLL)  # the chief has not laid it out yet
        raise errors.RetryableError(f"the chief has not said within {_PATIENCE:g} s what to read")

    def before_run(self, run_context: Any) -> Any:
        """Looks with each step whether the chief has started anew."""
        if self._position.task.is_chief:
            return None
        return tf.compat.v1.train.SessionRunArgs(self._read_generation)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Goes back with the chief: raises the error that has the session created anew."""
        if run_values.results is not None and int(run_values.results) != self._generation:
            raise tf.errors.AbortedError(None, None, "the chief went back to a checkpoint")
