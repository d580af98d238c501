"""How long steps work: their time without input and exchange, and the best pace that was kept.

Of steps that were traced it is known how long they exchanged parameters or gradients, and how much
of the time that they waited for their batch was hidden: ops that do not need it ran meanwhile.
Others are taken to be like the last few traced ones that took about as long as usual: a traced step
that waited for a process that stood still tells nothing of others. No step hides or exchanges more
than it took, so no time is ever negative.

While a step waits for other processes the next batch of its own is made. If that is late too, that
part of the exchange is known as late: without the others the process would have waited for it.

A step that took many times as long as usual has stalled: what it took more is known apart, and is
no work, whether it was traced or not: a trace does not show what a server has not answered.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from typing import NamedTuple

# A pace is sustained if it is kept for so many seconds of training. Of `_MOST` such pieces, an even
# number, two are put together, so that one is at least a hundredth of the training.
_SUSTAINED, _MOST = 5.0, 100
_BEST_SHARE = 0.1
_TRACES, _UNTRACED, _UNREADY = 5, 100, 1000
# So many times as long as usual, a step is not like others.
_UNLIKE = 2.0
# A step that took longer than so many seconds, and than so many times as long as at least `_KNOWN`
# others, has stalled.
_STALL, _STALL_TIMES, _KNOWN = 2.0, 5.0, 10


class _StepSeconds(NamedTuple):
    """Seconds of a step, besides those it waited for its batch, and these."""

    seconds: float
    waited: float

    @property
    def took(self) -> float:
        return self.seconds + self.waited


class _Parts(NamedTuple):
    """Seconds of a step that are exchange, and those of its wait for a batch that are hidden."""

    exchange: float
    hidden: float


class Traces:
    """What the last few traced steps tell of others."""

    def __init__(self) -> None:
        self._traced: collections.deque[tuple[_StepSeconds, _Parts]] = collections.deque(
            maxlen=_TRACES
        )
        self._others: collections.deque[_StepSeconds] = collections.deque(maxlen=_UNTRACED)
        # None as long as no traced step was like the others; and what such a step works besides the
        # exchange that follows its batch.
        self.each: _Parts | None = None
        self.work = 0.0
        # What any of them worked at least.
        self.least = math.inf

    def add_untraced(self, step: _StepSeconds) -> None:
        """Adds a step without trace."""
        self._others.append(step)

    def compute_stall(self, step: _StepSeconds) -> float:
        """Returns the seconds that a step took more than usual, if it has stalled."""
        if step.seconds <= _STALL or len(self._others) < _KNOWN:
            return 0.0
        usual = statistics.median(one.seconds for one in self._others)
        return step.seconds - usual if step.seconds > _STALL_TIMES * usual else 0.0

    def add(self, step: _StepSeconds, parts: _Parts) -> bool:
        """Adds a traced step; returns whether it is like the others."""
        self._traced.append((step, parts))
        others = self._others or [step]
        usual = statistics.median(one.took for one in others)
        # If tracing is dear all traced steps take long: two of them tell.
        traced = min(one.took for one, _ in self._traced) if len(self._traced) > 1 else 0.0
        longest = _UNLIKE * max(usual, traced)
        alike = [(one, of) for one, of in self._traced if one.took <= longest]
        if alike:
            hidden = statistics.median(of.hidden for _, of in alike)
            waited = statistics.median(one.waited for one in others)
            work = statistics.median(one.seconds for one in others) + min(hidden, waited)
            self.each = _Parts(
                statistics.median(_scale_exchange(*one, work) for one in alike), hidden
            )
            self.work = statistics.median(_compute_work_after_batch(*one) for one in alike)
        is_alike = step.took <= longest
        if is_alike:
            worked = min(step.seconds + parts.hidden, work)
            self.least = min(self.least, worked - _scale_exchange(step, parts, work))
        return is_alike


def _scale_exchange(step: _StepSeconds, parts: _Parts, work: float) -> float:
    """Returns the exchange of a step that works for as long as others do, with exchange."""
    worked = step.seconds + parts.hidden
    return parts.exchange * min(1.0, work / worked) if worked else 0.0


def _compute_work_after_batch(step: _StepSeconds, parts: _Parts) -> float:
    """Returns the seconds of a step besides exchange that is not hidden by the wait for a batch."""
    return step.seconds - min(step.seconds, max(0.0, parts.exchange - parts.hidden))


@dataclasses.dataclass
class _Piece:
    """Steps that follow each other, and what is between them."""

    examples: int = 0
    number: int = 0  # of steps
    between: float = 0.0  # seconds between steps
    trained: float = 0.0  # seconds, with input and exchange
    worked: float = 0.0  # those between steps, and of steps whose parts are known
    # Others: their number, their seconds with exchange, and those they waited for a batch.
    steps: int = 0
    unknown: float = 0.0
    waited: float = 0.0

    def resolve(self, each: _Parts) -> _Parts:
        """Takes the parts of steps as known of which they were not, and returns their sums."""
        hidden = min(each.hidden * self.steps, self.waited)
        exchange = min(each.exchange * self.steps, self.unknown + hidden)
        self.worked += self.unknown + hidden - exchange
        self.steps, self.unknown, self.waited = 0, 0.0, 0.0
        return _Parts(exchange, hidden)


class StepWork:
    """The work of all steps of a process, and their parts that are not."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._current = _Piece()
        self._length = _SUSTAINED
        self._traces = Traces()
        self._exchange = self._hidden = self._late = 0.0
        # Seconds of the step before the last one, and of steps without their batch in which the
        # next one was not ready, until it is known how long they work.
        self._before: float | None = None
        self._unready: collections.deque[float] = collections.deque(maxlen=_UNREADY)
        self.stalled = 0.0  # seconds of steps beyond those of the others
        self._is_settled = False  # the parts of all steps are known
        # The last step, until it is known whether it was traced.
        self._last: _StepSeconds | None = None

    def add(
        self,
        examples: int,
        seconds: float,
        *,
        waited: float = 0,
        between: float = 0,
        early: float | None = None,
    ) -> None:
        """Adds a step that took so many `seconds` besides those it `waited` for its batch, and what
        was `between` it and the one before. Its batch had been ready for `early` seconds."""
        self.end_step()
        if early is not None and self._before is not None:
            self._add_unready(self._before - max(0.0, early))
        self._before = None
        if self._current.trained >= self._length:
            self._begin_piece()
        self._current.examples += examples
        self._current.number += 1
        self._current.between += between
        self._current.trained += seconds + waited + between
        self._current.worked += between
        self._last = _StepSeconds(seconds, waited)

    def end_step(self) -> None:
        """The last step was not traced."""
        step, self._last = self._last, None
        if step is None:
            return
        stalled = self._traces.compute_stall(step)
        self.stalled += stalled
        step = step._replace(seconds=step.seconds - stalled)
        self._before = step.seconds
        self._traces.add_untraced(step)
        if self._traces.each is not None:
            self._count(step, self._traces.each)
        else:
            self._current.steps += 1
            self._current.unknown += step.seconds
            self._current.waited += step.waited

    def trace(self, exchange: float, hidden: float = 0.0) -> bool:
        """The last step was traced, and these seconds are its parts; returns whether it was like
        the others."""
        if self._last is None:
            return True
        step, self._last = self._last, None
        stalled = self._traces.compute_stall(step)
        self.stalled += stalled
        rest = step._replace(seconds=step.seconds - stalled)
        self._before = rest.seconds
        self._count(rest, _Parts(exchange - stalled, hidden))
        is_alike = self._traces.add(step, _bound(_Parts(exchange, hidden), step))
        if self._traces.each is not None and not self._is_settled:
            self._is_settled = True
            for piece in (*self._pieces, self._current):
                self._add(piece.resolve(self._traces.each))
            for seconds in self._unready:
                self._add_unready(seconds)
        return is_alike

    def skip(self) -> None:
        """A step was made of which nothing is known."""
        self.end_step()
        self._before = None

    @property
    def exchange(self) -> float:
        """Seconds of exchange so far."""
        return self._exchange + self._of_last.exchange

    @property
    def late(self) -> float:
        """Seconds of exchange so far in which the next batch was not ready either."""
        return min(self._late, self.exchange)

    @property
    def hidden(self) -> float:
        """Seconds so far in which steps waited for their batch and did something else."""
        return self._hidden + self._of_last.hidden

    @property
    def best(self) -> float | None:
        """Seconds of work per example that a tenth of the pieces was no slower than."""
        work = [(self._compute_work(one), one.examples) for one in self._pieces]
        if self._current.trained >= self._length:
            last = self._last.seconds if self._last else 0.0
            last += self._of_last.hidden - self._of_last.exchange
            work.append((self._compute_work(self._current, last), self._current.examples))
        every = [seconds / examples for seconds, examples in work if seconds > 0]
        paces = sorted(pace for pace in every if pace > 0)  # of next to no time it may be 0
        return paces[int(_BEST_SHARE * len(paces))] if paces else None

    def _compute_work(self, piece: _Piece, last: float = 0.0) -> float:
        """Returns the seconds that a piece worked, and in its `last` step. Where steps exchange for
        less than usual these are more: no less than the steps of traces worked."""
        least = 0.0 if self._traces.each is None else self._traces.least * piece.number
        return max(piece.worked + piece.unknown + last, min(piece.trained, piece.between + least))

    @property
    def _of_last(self) -> _Parts:
        if self._last is None or self._traces.each is None:
            return _Parts(0.0, 0.0)
        return _bound(self._traces.each, self._last)

    def _count(self, step: _StepSeconds, parts: _Parts) -> _Parts:
        """Adds a step whose parts are known, and returns them."""
        parts = _bound(parts, step)
        self._add(parts)
        self._current.worked += step.seconds + parts.hidden - parts.exchange
        return parts

    def _add(self, parts: _Parts) -> None:
        self._exchange += parts.exchange
        self._hidden += parts.hidden

    def _add_unready(self, seconds: float) -> None:
        if self._traces.each is None:
            self._unready.append(seconds)
        else:
            self._late += max(0.0, seconds - self._traces.work)

    def _begin_piece(self) -> None:
        self._pieces.append(self._current)
        self._current = _Piece()
        if len(self._pieces) == _MOST:
            pairs = zip(self._pieces[::2], self._pieces[1::2], strict=True)
            self._pieces = [_join(first, second) for first, second in pairs]
            self._length *= 2


def _bound(parts: _Parts, step: _StepSeconds) -> _Parts:
    hidden = min(step.waited, max(0.0, parts.hidden))
    return _Parts(min(step.seconds + hidden, max(0.0, parts.exchange)), hidden)


def _join(first: _Piece, second: _Piece) -> _Piece:
    sums = (
        getattr(first, field.name) + getattr(second, field.name)
        for field in dataclasses.fields(_Piece)
    )
    return _Piece(*sums)
