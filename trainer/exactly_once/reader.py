"""Keeps the input where the parameters are.

What is still to be read follows from what the checkpoint says has been applied. Processes that
make each step together share it evenly, by rank. On parameter servers, which outlive the processes
that train, each takes what it can use, and all go back when a new chief restores a checkpoint.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.processes import signals
from pipeline.runs import run_folder
from trainer import optimizers
from trainer.distribution import replicas, session_manager
from trainer.exactly_once import assignments, counters, dispatcher, pending
from trainer.exactly_once.lost_readers import LeaseTimeouts
from trainer.input import epoch_order, shares, window_feed
from trainer.optimizers.places import Standstill

_POLL = 0.1  # seconds
_LOOK = 1.0  # seconds between looks of the chief for readers that have left
# Says of a piece of work how much of it is done, and of how much.
Progress = Callable[[str, int, int | None], None]
# Makes what is entered while others are waited for.
Waiting = Callable[[], contextlib.AbstractContextManager[None]]


class Position:
    """The position in the training data, of one process.

    `reached` is that of the checkpoint that training continues from, `[blocks]`. `count` is called
    while the graph is built, the hook's methods afterwards.
    """

    def __init__(
        self,
        job: config.Config,
        task: topology.Task,
        blocks: epoch_order.Blocks,
        *,
        reached: np.ndarray,
    ) -> None:
        self.job, self.task, self.blocks = job, task, blocks
        self.shared = topology.PS in task.cluster
        # What is assigned to a reader may wait for two windows before it is read.
        number = epoch_order.open_blocks(
            blocks, job.train.open_blocks, task.num_readers * (3 if self.shared else 1)
        )
        self.feed = window_feed.Feed(blocks, job.train.seed, number)
        self.batch = batch = topology.examples_per_process(job)  # of all replicas here, a step
        self.sizes = assignments.compute_sizes(blocks.records, batch, number)
        self.together = not strategy_table.STRATEGIES[job.cluster.strategy].asynchronous
        # With backup workers each reader reads as fast as it can, as where it steps by itself.
        self.in_turn = bool(
            not self.together or job.cluster.backup_workers
        ) and assignments.can_take_turns(blocks.due, batch, number, num_readers=task.num_readers)
        # How many are read whole, before any record of a later one.
        self.epochs = None if job.train.epochs is None else math.ceil(round(job.train.epochs, 6))
        # Of the chief, once it has made a step: before that, none has been made.
        self.standstill: Standstill | None = None
        if not self.shared:
            schedule = epoch_order.BlockSchedule(blocks, job.train.seed, reached)
            end = self._end(reached)
            self.feed.begin(lambda: shares.assign(schedule, task.rank, task.num_readers, end=end))

    @property
    def ends_with_chief(self) -> bool:
        """True of a worker whose session ends when one of the chief's does."""
        return self.shared and self.together and not self.task.is_chief

    def count_left(self, reached: np.ndarray) -> int:
        """Returns how many records are left of the last epoch and those before it; `reached` is
        `[blocks]`. 0 where training ends by steps alone."""
        return int(np.maximum((self.epochs or 0) * self.blocks.due - reached, 0).sum())

    def _end(self, reached: np.ndarray) -> shares.End | None:
        if self.epochs is None:
            return None
        return shares.End(self.count_left(reached), int(self.blocks.due.max()), self.batch)

    def let_in(self, batch: Any, blocks: tf.Tensor, places: tf.Tensor) -> Any:
        """Returns `batch`, any structure of tensors, as a step is to use it. On parameter
        servers a step whose session was left behind fails before it has it. Once a replica."""
        if not self.shared:
            return batch
        if replicas.get_index() == 0:
            self._make_dispatcher()
        admitted = self.dispatcher.let_in()
        if self.together:
            reads = self.counts.stack_reads(blocks, places, self.task.rank)
            with tf.control_dependencies([admitted]):
                admitted = reads = tf.identity(reads)
            handing_in = functools.partial(self.pending.hand_in, reads)
            tf.compat.v1.add_to_collection(optimizers.WITH_GRADIENTS, handing_in)
            tf.compat.v1.add_to_collection(optimizers.WITH_UPDATE, self.pending.count)
        with tf.control_dependencies([admitted]):
            return tf.nest.map_structure(tf.identity, batch, expand_composites=True)

    def _make_dispatcher(self) -> None:
        self.counts = counters.Variables(self.blocks, apart=True)
        if self.together:
            self.pending = pending.Pending(self.counts, self.batch)
        self.dispatcher = dispatcher.Dispatcher(
            self.pending.reached if self.together else self.counts.reached,
            rank=self.task.rank,
            num_readers=self.task.num_readers,
            width=self.sizes.width,
            chunk=self.sizes.chunk,
        )

    def count(self, blocks: tf.Tensor, places: tf.Tensor) -> Any:
        """Returns the op that counts a batch which has been applied; once a replica."""
        if not self.shared:
            self.counts = counters.Variables(self.blocks)
            return self.counts.count(blocks, places, self.task.rank)
        if self.together:
            return tf.no_op()  # it is counted with the update
        turn = self.dispatcher.is_in_turn()
        return self.counts.count(blocks, places, self.task.rank, in_turn=turn)

    def before_session(self, session: Any) -> None:
        """Must be called before a session is made for training, with a session on the same graph
        and before anything is put back to a checkpoint."""
        if self.shared and self.task.is_chief:
            self.dispatcher.close(session)
        elif self.shared:
            self.dispatcher.leave(session)

    def before_save(self, session: Any) -> None:
        """Must be called before a checkpoint is saved."""
        if self.standstill is not None:
            self.standstill.begin(session)
        if self.shared:
            self.counts.copy(session)

    def after_save(self) -> None:
        """Must be called after a checkpoint was saved, unless it is the last."""
        if self.standstill is not None:
            self.standstill.end()

    def before_last_save(self, session: Any) -> None:
        """Must be called before the last checkpoint is saved: no process makes a step after it.
        Where all make it together, none can without the chief, or without the place it takes."""
        if self.standstill is not None:
            self.standstill.begin_last(session)
            self.standstill = None
        if self.shared and not self.together:
            self.dispatcher.close(session)


class PositionHook(tf.compat.v1.train.SessionRunHook):
    """On parameter servers, keeps what a process is to read ahead of its steps.

    It must come before the hooks that say that training continues. With `train.epochs` no block of
    a later epoch is read while there are records left of the last. A process that has not enough of
    them for a batch gives them to the chief and waits until training ends, as `progress` tells.
    """

    def __init__(
        self,
        position: Position,
        progress: Progress = lambda what, done, total: None,
        waiting: Waiting = contextlib.nullcontext,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._position = position
        self._progress = progress
        self._waiting = waiting
        self._clock = clock
        # The ranks whose block ranges are held here since they gave them up.
        self._taken_over: set[int] = set()
        # True while another process makes the steps that this one has no records for.
        self._out_of_step = False
        # True when this process has no more steps to make.
        self._ended = False
        self._looked = 0.0
        self._standstill: Standstill | None = None

    def begin(self) -> None:
        """Builds the ops; the graph is finalized after this."""
        self._dispatcher = self._position.dispatcher
        self._dispatcher.build()
        self._position.counts.build()
        if self._position.together:
            self._drop = self._position.pending.drop()
            self._let_step, self._join_step = optimizers.build_turns()
            if self._position.task.is_chief:
                self._standstill = optimizers.get_standstill()
        self._global_step = tf.compat.v1.train.get_global_step()
        self._readers = self._position.counts.readers.read_value()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds what this process holds and takes more; the pipeline starts to read after this."""
        p = self._position
        if p.task.is_chief:
            p.counts.restore(session)
            if p.together:
                session.run(self._drop)
            self._dispatcher.lay_out(session)
        translate_failures(session, together=p.together)
        start = self._begin(session)
        schedule = epoch_order.BlockSchedule(p.blocks, p.job.train.seed, start.base)
        self._start = start
        self._read_at_end = int(start.base.sum(dtype=np.int64)) + p.count_left(start.base)
        end = None if p.epochs is None else schedule.end_of(p.epochs)
        self._held = assignments.Assignments(
            schedule,
            p.blocks.records,
            p.batch,
            size=p.sizes,
            in_turn=p.in_turn,
            end=end,
        )
        self._taken_over, self._out_of_step, self._ended = set(), False, False
        if start.gave_up:
            self._held.exhaust()  # the chief reads what is in its row
        else:
            self._held.add(at - start.first for at in start.held)
        self._held.release(start.reached[self._held.waiting_blocks])
        applied = session.run(self._readers)[: p.task.num_readers]
        self._timeouts = LeaseTimeouts(p.job.cluster, applied, self._clock())
        self._refill(session)
        if self._ended:
            coord.request_stop()
        p.feed.begin(self._held.take_block_ranges)

    def _begin(self, session: Any) -> dispatcher.Start:
        # The chief restores parameters meanwhile, or saves them for the last time.
        patience = self._position.job.cluster.watchdog_start_seconds
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            start = self._dispatcher.begin(session)
            if start is not None:
                return start
            if signals.stop_requested.wait(_POLL):
                raise errors.StoppedError(
                    "stopped while waiting for the chief. Run the same command to resume."
                )
        raise errors.RetryableError(
            f"the chief has assigned no records within {patience:g} s; see make logs ROLE=chief. "
            "Run the same command again to resume."
        )

    def before_run(self, run_context: Any) -> Any:
        """Says with each step which session makes it. Ends as the end of an input does if there
        is none to make: a session that was made again does not ask."""
        if self._ended:
            raise tf.errors.OutOfRangeError(None, None, "all records have been read")
        return tf.compat.v1.train.SessionRunArgs(
            None, feed_dict={self._dispatcher.token: self._start.token}
        )

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Takes what the next step may need. Raises the error that has the session made again if it
        was left behind."""
        self._position.standstill = self._standstill
        self._held.count_applied_batch()
        self._refill(run_context.session)
        self._replace_lost(run_context.session)
        if self._ended:
            run_context.request_stop()

    def _refill(self, session: Any) -> None:
        """Takes block ranges until there is enough for some steps.

        Waits, if there are none that can be begun: all others are of blocks that slower processes
        have not done with, or all have been assigned.
        """
        held, shared, first = self._held, self._dispatcher, self._start.first
        while held.wants_more:
            if held.full:
                held.drop_applied(shared.read_reached(session, held.ready_blocks))
            if not (held.full or held.exhausted):
                kept = [at + first for at in held.positions]
                held.add(at - first for at in shared.take(session, kept))
                held.release(shared.read_reached(session, held.waiting_blocks))
            elif not held.lacks_a_batch or signals.stop_requested.is_set():
                break
            elif held.exhausted and not self._position.task.is_chief:
                with self._waiting():
                    self._give_up(session)
            else:
                with self._waiting():
                    self._await_records(session)
            if self._ended:
                return
        # A process that is asked to stop makes no further step, and would wait for its turn.
        if self._out_of_step and not signals.stop_requested.is_set():
            session.run(self._join_step)
            self._out_of_step = False

    def _await_records(self, session: Any) -> None:
        """Waits a moment for records that can be begun."""
        held, shared = self._held, self._dispatcher
        self._leave_step(session)
        if held.exhausted:
            self._take_over(session)
        else:
            self._ended = not self._wait(session)
        held.release(shared.read_reached(session, held.waiting_blocks))
        shared.check(session, self._start.token)
        self._replace_lost(session)

    def _leave_step(self, session: Any) -> None:
        """Where all make each step together, lets another process make this one's part."""
        if self._position.together and not self._out_of_step:
            session.run(self._let_step)
            self._out_of_step = True

    def _give_up(self, session: Any) -> None:
        """Leaves what is held to the chief, and waits for the end of training."""
        self._dispatcher.give_up(session)
        self._leave_step(session)
        self._ended = True
        while not signals.stop_requested.is_set() and self._wait(session):
            self._dispatcher.check(session, self._start.token)

    def _wait(self, session: Any) -> bool:
        """Waits a moment for steps of other processes; returns false once training has ended."""
        step, last = int(session.run(self._global_step)), self._position.job.train.max_steps
        if step < last:
            self._progress(run_folder.WAITING, step, last)
            time.sleep(_POLL)
        return step < last

    def _take_over(self, session: Any) -> None:
        """As the chief, adds what others have given up, and once nothing else is left, what fills
        the last batch; else waits a moment. Ends if another process has made the last step."""
        held, shared, first = self._held, self._dispatcher, self._start.first
        for rank in set(shared.list_given_up(session)) - self._taken_over:
            held.add(at - first for at in shared.list_held_by(session, rank, first))
            self._taken_over.add(rank)
        read = shared.read(session)
        reached = shared.read_reached(session, held.waiting_blocks)
        # Asked after the records, which an asynchronous step counts when it has been made.
        self._ended = session.run(self._global_step) >= self._position.job.train.max_steps
        if not self._ended and self._read_at_end - read <= held.count_left(reached):
            held.read_on_alone(self._position.sizes.chunk)
        elif not self._ended:
            self._progress(run_folder.WAITING, read, self._read_at_end)
            time.sleep(_POLL)

    def end(self, session: Any) -> None:
        """Says that this process makes no more steps. If it alone is to end, others read what it
        holds."""
        self._dispatcher.leave(session)
        p = self._position
        if signals.stop_requested.is_set() and not (p.task.is_chief or p.together):
            self._dispatcher.hand_back(session)

    def _replace_lost(self, session: Any) -> None:
        """As the chief, takes over what readers hold that have left, or have not been seen for
        long."""
        if not self._position.task.is_chief:
            return
        first, now, gone = self._start.first, self._clock(), []
        if now - self._looked >= _LOOK:
            self._looked = now
            gone = self._dispatcher.list_handed_back(session)
        if self._timeouts.is_due(now):
            gone += self._timeouts.find_lost(session.run(self._readers), now)
        for rank in dict.fromkeys(gone):
            taken = self._dispatcher.take_back(session, rank, first)
            if rank not in self._taken_over:
                self._held.add(at - first for at in taken)


def translate_failures(session: Any, *, together: bool) -> None:
    """Makes a step that is not let in raise the error that has `session` made again.

    Where all make each step together, a failure that the framework would answer with another
    session ends the process: the first one takes the queue of tokens with it
    (docs/tensorflow-pitfalls.md#syncreplicasoptimizer).
    """
    run = session.run

    def run_translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except tf.errors.OpError as error:
            if dispatcher.is_refusal(error):
                raise dispatcher.build_refusal() from error
            if together and isinstance(error, session_manager.LOST_PEER):
                raise session_manager.build_lost_peer_error(error) from error
            raise

    session.run = run_translated
