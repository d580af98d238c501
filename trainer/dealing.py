"""How processes on parameter servers share what is to be read: each takes what it can use.

Variables on a parameter server say how far the backlog has been dealt, and which of its pieces each
reader holds. They are not saved: a chief that starts lays them out anew, from the counts of the
parameters it starts with. A reader that comes back goes on with what it held; if it does not, the
chief takes that back.

Positions in the backlog are counted on over the starts of a chief, so that those dealt before are
told from those dealt after, whenever they were written. A token names a session of a reader: one
whose token has been replaced was left behind, as the chief has started or has taken its pieces, and
must begin again.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import ledger

_NONE = -1  # where there is no position
_raw = tf.raw_ops


@dataclasses.dataclass(frozen=True)
class Start:
    """What a session begins with: the counts when the backlog was laid out (`base`) and now
    (`reached`), `[blocks]`, and the positions that its reader holds of it."""

    token: int
    first: int
    base: np.ndarray
    reached: np.ndarray
    held: list[int]


class Dealer:
    """The variables, and the ops on them, of one reader in its graph; all on one server.

    A reader holds up to `width` pieces, and takes `chunk` at a time. `reached` is the variable of
    the ledger.
    """

    def __init__(
        self, reached: Any, *, rank: int, num_readers: int, width: int, chunk: int
    ) -> None:
        self.width, self.chunk = width, chunk
        self._rank, self._num_readers, self._reached = rank, num_readers, reached
        self._dealt = self._own("dealt", [])
        self._device = self._dealt.device
        with ledger.server_of(self._dealt):
            self._first = self._own("first", [])
            self._tokens = self._own("tokens", [num_readers])
            self._held = self._own("held", [num_readers, width])
            self._base = self._own("base", list(reached.shape), tf.int32)

    @staticmethod
    def _own(name: str, shape: list[int], dtype: tf.DType = tf.int64) -> Any:
        return ledger.variable(f"input/{name}", shape, dtype, saved=False)

    def in_turn(self) -> tf.Tensor:
        """Returns whether the session that makes this step has not been left behind."""
        self.token = tf.compat.v1.placeholder(tf.int64, [], "input/token")
        with tf.device(self._device):
            self.newest_token = self._tokens.read_value()[self._rank]
            return tf.equal(self.newest_token, self.token)

    def build(self) -> None:
        """Makes the ops that are run between steps; the graph is finalized after this."""
        rank = self._rank
        self._row = tf.compat.v1.placeholder(tf.int64, [])
        self._new_token = tf.compat.v1.placeholder(tf.int64, [])
        self._new_tokens = tf.compat.v1.placeholder(tf.int64, [self._num_readers])
        self._kept = tf.compat.v1.placeholder(tf.int64, [self.width - self.chunk])
        self._blocks = tf.compat.v1.placeholder(tf.int32, [None])
        with tf.device(self._device):
            self._revoke = _set(self._tokens, self._new_tokens)
            self._lay_out = self._layout()
            self._is_laid_out = _raw.VarIsInitializedOp(resource=self._dealt.handle)
            self._zero = _set(self._dealt, tf.constant(0, tf.int64))
            self._begin = _put(self._tokens, rank, self._new_token)
            self._state = (
                *(self._first.read_value(), self._base.read_value(), self._reached.read_value()),
                self._held.read_value()[rank],
            )
            self._take = self._taking()
            self._take_back = self._taking_back()
        self._reached_of = _raw.ResourceGather(
            resource=self._reached.handle, indices=self._blocks, dtype=tf.int32
        )

    def _layout(self) -> Any:
        """What was dealt before counts no more: the rows first, then the border between before and
        after. New tokens last: they leave behind who begins in between, too."""
        none = tf.fill([self._num_readers, self.width], tf.constant(_NONE, tf.int64))
        op = _set(self._held, none)
        with tf.control_dependencies([op]):
            op = tf.group(
                _set(self._first, self._dealt.read_value()),
                _set(self._base, self._reached.read_value()),
            )
        with tf.control_dependencies([op]):
            return _set(self._tokens, self._new_tokens)

    def _taking(self) -> Any:
        """In one run, and nothing is counted before all that a reader sends has arrived: what is
        dealt to one that is killed is in its row."""
        none = tf.fill([self.chunk], tf.constant(_NONE, tf.int64))
        before = _put(self._held, self._rank, tf.concat([self._kept, none], axis=0))
        taken: list[Any] = []
        for _ in range(self.chunk):
            with tf.control_dependencies(taken[-1:] or [before]):
                # The one op that adds and returns what was there as one.
                taken.append(
                    _raw.ResourceCountUpTo(resource=self._dealt.handle, limit=2**62, T=tf.int64)
                )
        row = tf.concat([self._kept, tf.stack(taken)], axis=0)
        with tf.control_dependencies([_put(self._held, self._rank, row)]):
            return tf.stack(taken)

    def _taking_back(self) -> Any:
        with tf.control_dependencies([_put(self._tokens, self._row, self._new_token)]):
            held = tf.identity(self._held.read_value()[self._row])
        with tf.control_dependencies([held]):
            none = tf.fill([self.width], tf.constant(_NONE, tf.int64))
            with tf.control_dependencies([_put(self._held, self._row, none)]):
                return tf.identity(held)

    def leave_behind(self, session: Any) -> None:
        """Leaves all sessions behind: what they count from now on is out of turn. The chief's part,
        before the counts are put back."""
        session.run(self._revoke, {self._new_tokens: self._tokens_for_all()})

    def lay_out(self, session: Any) -> None:
        """Lays out a new backlog, of what the parameters have not seen; the chief's part."""
        if not session.run(self._is_laid_out):  # nor if the server was lost
            session.run(self._zero)
        session.run(self._lay_out, {self._new_tokens: self._tokens_for_all()})

    def _tokens_for_all(self) -> list[int]:
        return [_new_token() for _ in range(self._num_readers)]

    def begin(self, session: Any) -> Start | None:
        """Makes `session` that of its reader; `None` if nothing has been laid out yet."""
        token = _new_token()
        try:
            session.run(self._begin, {self._new_token: token})
            first, base, reached, row = session.run(self._state)
        except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
            return None  # variables without a value, of a server that has just started
        return Start(token, int(first), base, reached, _positions(row, int(first)))

    def take(self, session: Any, kept: Sequence[int]) -> list[int]:
        """Takes the next pieces and returns their positions; `kept` are those still held."""
        row = [*kept, *[_NONE] * (self.width - self.chunk - len(kept))]
        return [int(at) for at in session.run(self._take, {self._kept: row})]

    def take_back(self, session: Any, rank: int, first: int) -> list[int]:
        """Takes what another reader holds, and leaves its session behind."""
        feed = {self._row: rank, self._new_token: _new_token()}
        return _positions(session.run(self._take_back, feed), first)

    def reached_of(self, session: Any, blocks: Sequence[int]) -> np.ndarray:
        """Returns how far the reading of `blocks` is now."""
        return np.asarray(session.run(self._reached_of, {self._blocks: list(blocks)}), np.int64)

    def token_now(self, session: Any) -> int:
        """Returns the token of the newest session of this reader."""
        return int(session.run(self.newest_token))


def _new_token() -> int:
    return secrets.randbits(62)


def _positions(row: np.ndarray, first: int) -> list[int]:
    return sorted(int(at) for at in row if at >= first)


def _set(variable: Any, value: tf.Tensor) -> Any:
    return _raw.AssignVariableOp(resource=variable.handle, value=value)


def _put(variable: Any, row: Any, value: tf.Tensor) -> Any:
    return _raw.ResourceScatterUpdate(resource=variable.handle, indices=row, updates=value)
