"""How processes on parameter servers share what is to be read: each takes what it can use.

Variables on a parameter server say how far the schedule has been assigned, and which of its block
ranges each reader holds. They are not saved: a chief that starts lays them out again, from the
counts of the parameters it starts with. A reader that comes back continues with what it held; if it
does not, the chief takes that back.

Positions in the schedule are counted on over the starts of a chief, so that those assigned before
are told from those assigned after, whenever they were written. A token names a session of a reader:
one whose token is no longer there was left behind, as the chief has started or has taken its
block ranges, and must begin again.

A reader that cannot make a whole batch of what is left of the last epoch gives up: it says so in
its row, and the chief reads what it held. So the last batches are of one reader, and all others
are full. A reader that leaves before hands back what it holds: the chief takes it at once, and does
not wait until it is missed. There may be places for more readers than there are at the moment.

No step is let in while the dispatcher is closed. The chief closes it, and waits until no step is
under way, before it puts parameters back to a checkpoint, so that nothing is applied to them that
is not counted; and before it saves for the last time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.exactly_once import counters

_NONE = -1  # where there is no position
_NOBODY = 0  # the token of a reader that has no session
_CLOSED, _OPEN = 0, 1
_NOT_LET_IN = "the chief has given the blocks of this process out again"
_POLL = 0.02  # seconds
# What servers say that have just started.
_WITHOUT_VALUE = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError)
_raw = tf.raw_ops


@dataclasses.dataclass(frozen=True)
class Start:
    """What a session begins with: the counts when the schedule was laid out (`base`) and now
    (`reached`), `[blocks]`, the positions that its reader holds of it, and whether that has given
    them up."""

    token: int
    first: int
    base: np.ndarray
    reached: np.ndarray
    held: list[int]
    gave_up: bool


class Dispatcher:
    """The variables, and the ops on them, of one reader in its graph; all on one server.

    A reader holds up to `width` block ranges, and takes `chunk` at a time. `reached` is the
    variable of the ledger, and on that server. `patience` is in seconds, for steps under way when
    the dispatcher is closed. One that takes longer, or whose process was killed, is left behind: at
    most one batch of its process is applied and counted out of turn.
    """

    def __init__(
        self,
        reached: Any,
        *,
        rank: int,
        num_readers: int,
        width: int,
        chunk: int,
        patience: float = 5.0,
    ) -> None:
        self.width, self.chunk, self.patience = width, chunk, patience
        self._rank, self._num_readers, self._reached = rank, num_readers, reached
        self._device = reached.device
        with counters.open_server_scope(reached):
            self._assigned = self._make_variable("assigned", [])
            self._first = self._make_variable("first", [])
            # The last one is no token: it says whether the dispatcher is open.
            self._tokens = self._make_variable("tokens", [num_readers + 1])
            self._held = self._make_variable("held", [num_readers, width])
            self._gave_up = self._make_variable("gave_up", [num_readers])
            self._left = self._make_variable("left", [num_readers])
            self._base = self._make_variable("base", list(reached.shape), tf.int32)
        self.token = tf.compat.v1.placeholder(tf.int64, [], "input/token")

    @staticmethod
    def _make_variable(name: str, shape: list[int], dtype: tf.DType = tf.int64) -> Any:
        return counters.make_variable(f"input/{name}", shape, dtype, saved=False)

    def let_in(self) -> Any:
        """Returns the op that fails, as `is_refusal` tells, unless the dispatcher is open and the
        session that makes this step has not been left behind."""
        with tf.device(self._device):
            now = tf.gather(self._tokens.read_value(), [self._rank, self._num_readers])
        right = tf.reduce_all(tf.equal(now, tf.stack([self.token, _OPEN])))
        return tf.debugging.Assert(right, [_NOT_LET_IN])

    def is_in_turn(self) -> tf.Tensor:
        """Returns whether the session that makes this step has not been left behind."""
        with tf.device(self._device):
            return tf.equal(self._tokens.read_value()[self._rank], self.token)

    def build(self) -> None:
        """Makes the ops that are run between steps; the graph is finalized after this."""
        rank = self._rank
        self._row = tf.compat.v1.placeholder(tf.int64, [])
        self._kept = tf.compat.v1.placeholder(tf.int64, [self.width - self.chunk])
        self._blocks = tf.compat.v1.placeholder(tf.int32, [None])
        with tf.device(self._device):
            state = self._num_readers
            self._tokens_now = self._tokens.read_value()
            self._close = _scatter_update(self._tokens, state, tf.constant(_CLOSED, tf.int64))
            self._forget = _set(self._tokens, tf.zeros([self._num_readers + 1], tf.int64))
            self._leave = _scatter_update(self._tokens, rank, tf.constant(_NOBODY, tf.int64))
            self._lay_out = self._build_layout()
            self._is_laid_out = _raw.VarIsInitializedOp(resource=self._assigned.handle)
            self._zero = _set(self._assigned, tf.constant(0, tf.int64))
            came = _scatter_update(self._left, rank, tf.constant(0, tf.int64))
            with tf.control_dependencies([came, _scatter_update(self._tokens, rank, self.token)]):
                self._begin = tf.equal(self._tokens.read_value()[state], _OPEN)
            self._state = (
                self._first.read_value(),
                self._base.read_value(),
                self._reached.read_value(),
                self._held.read_value()[rank],
                self._gave_up.read_value()[rank],
            )
            self._give_up = _scatter_update(self._gave_up, rank, tf.constant(1, tf.int64))
            self._given_up = self._gave_up.read_value()
            self._hand_back = _scatter_update(self._left, rank, tf.constant(1, tf.int64))
            self._handed_back = self._left.read_value()
            self._read = tf.reduce_sum(tf.cast(self._reached.read_value(), tf.int64))
            self._row_of = self._held.read_value()[self._row]
            self._take = self._build_take()
            self._take_back = self._build_take_back()
        self._reached_of = _raw.ResourceGather(
            resource=self._reached.handle, indices=self._blocks, dtype=tf.int32
        )

    def _build_layout(self) -> Any:
        """What was assigned before counts no more: the rows first, then the border between before
        and after. It opens last, so that no reader begins in between."""
        none = tf.fill([self._num_readers, self.width], tf.constant(_NONE, tf.int64))
        op = tf.group(
            _set(self._held, none),
            _set(self._gave_up, tf.zeros([self._num_readers], tf.int64)),
            _set(self._left, tf.zeros([self._num_readers], tf.int64)),
        )
        with tf.control_dependencies([op]):
            op = tf.group(
                _set(self._first, self._assigned.read_value()),
                _set(self._base, self._reached.read_value()),
            )
        with tf.control_dependencies([op]):
            return _scatter_update(self._tokens, self._num_readers, tf.constant(_OPEN, tf.int64))

    def _build_take(self) -> Any:
        """Takes blocks and records them as held in one session call, so that what is assigned to a
        reader that is killed is always in its row."""
        none = tf.fill([self.chunk], tf.constant(_NONE, tf.int64))
        before = _scatter_update(self._held, self._rank, tf.concat([self._kept, none], axis=0))
        taken: list[Any] = []
        for _ in range(self.chunk):
            with tf.control_dependencies(taken[-1:] or [before]):
                # The one op that adds and returns what was there as one.
                taken.append(
                    _raw.ResourceCountUpTo(resource=self._assigned.handle, limit=2**62, T=tf.int64)
                )
        row = tf.concat([self._kept, tf.stack(taken)], axis=0)
        with tf.control_dependencies([_scatter_update(self._held, self._rank, row)]):
            return tf.stack(taken)

    def _build_take_back(self) -> Any:
        nobody = tf.constant(_NOBODY, tf.int64)
        there = _scatter_update(self._left, self._row, tf.constant(0, tf.int64))
        with tf.control_dependencies([there, _scatter_update(self._tokens, self._row, nobody)]):
            held = tf.identity(self._held.read_value()[self._row])
        with tf.control_dependencies([held]):
            none = tf.fill([self.width], tf.constant(_NONE, tf.int64))
            with tf.control_dependencies([_scatter_update(self._held, self._row, none)]):
                return tf.identity(held)

    def close(self, session: Any, wait: Callable[[float], None] = time.sleep) -> None:
        """Lets no step in any more, and returns when none is under way; the chief's part.

        Sessions that do not end their step in time are left behind: what they count from then on is
        out of turn.
        """
        try:
            session.run(self._close)
            deadline = time.monotonic() + self.patience
            while session.run(self._tokens_now)[1:-1].any() and time.monotonic() < deadline:
                wait(_POLL)
        except _WITHOUT_VALUE:
            pass  # no reader has begun yet
        session.run(self._forget)

    def leave(self, session: Any) -> None:
        """Says that no session of this reader is making a step."""
        with contextlib.suppress(*_WITHOUT_VALUE):
            session.run(self._leave)

    def lay_out(self, session: Any) -> None:
        """Lays out a new schedule, of what the parameters have not seen, and opens; the chief's
        part, after `close`."""
        if not session.run(self._is_laid_out):  # nor if the server was lost
            session.run(self._zero)
        session.run(self._lay_out)

    def begin(self, session: Any) -> Start | None:
        """Makes `session` that of its reader; `None` if nothing is laid out yet."""
        token = secrets.randbits(62) + 1
        try:
            if not session.run(self._begin, {self.token: token}):
                self.leave(session)
                return None
            first, base, reached, row, gave_up = session.run(self._state)
        except _WITHOUT_VALUE:
            return None
        held = _list_positions(row, int(first))
        return Start(token, int(first), base, reached, held, bool(gave_up))

    def take(self, session: Any, kept: Sequence[int]) -> list[int]:
        """Takes the next block ranges and returns their positions; `kept` are those still held."""
        row = [*kept, *[_NONE] * (self.width - self.chunk - len(kept))]
        return [int(at) for at in session.run(self._take, {self._kept: row})]

    def take_back(self, session: Any, rank: int, first: int) -> list[int]:
        """Takes what another reader holds, and leaves its session behind."""
        return _list_positions(session.run(self._take_back, {self._row: rank}), first)

    def give_up(self, session: Any) -> None:
        """Leaves what this reader holds to the chief, for good."""
        session.run(self._give_up)

    def hand_back(self, session: Any) -> None:
        """Leaves what this reader holds to the chief until it comes again; after `leave`."""
        with contextlib.suppress(*_WITHOUT_VALUE):
            session.run(self._hand_back)

    def list_handed_back(self, session: Any) -> list[int]:
        """Returns the ranks of the readers that have handed back what they held."""
        return [int(rank) for rank in np.flatnonzero(session.run(self._handed_back))]

    def list_given_up(self, session: Any) -> list[int]:
        """Returns the ranks of the readers that have given up."""
        return [int(rank) for rank in np.flatnonzero(session.run(self._given_up))]

    def list_held_by(self, session: Any, rank: int, first: int) -> list[int]:
        """Returns what another reader holds."""
        return _list_positions(session.run(self._row_of, {self._row: rank}), first)

    def read(self, session: Any) -> int:
        """Returns how many records have been read, of all blocks and epochs."""
        return int(session.run(self._read))

    def read_reached(self, session: Any, blocks: Sequence[int]) -> np.ndarray:
        """Returns how far the reading of `blocks` is now."""
        return np.asarray(session.run(self._reached_of, {self._blocks: list(blocks)}), np.int64)

    def check(self, session: Any, token: int) -> None:
        """Raises the error on which TensorFlow makes the session again, if this one would not get
        in."""
        now = session.run(self._tokens_now)
        if now[self._rank] != token or now[-1] != _OPEN:
            raise build_refusal()


def build_refusal() -> Exception:
    """Returns the error on which TensorFlow makes the session again."""
    return tf.errors.AbortedError(None, None, _NOT_LET_IN)


def is_refusal(error: Exception) -> bool:
    """Returns whether a step failed because it was not let in."""
    return isinstance(error, tf.errors.InvalidArgumentError) and _NOT_LET_IN in error.message


def _list_positions(row: np.ndarray, first: int) -> list[int]:
    return sorted(int(at) for at in row if at >= first)


def _set(variable: Any, value: tf.Tensor) -> Any:
    return _raw.AssignVariableOp(resource=variable.handle, value=value)


def _scatter_update(variable: Any, row: Any, value: tf.Tensor) -> Any:
    return _raw.ResourceScatterUpdate(resource=variable.handle, indices=row, updates=value)
