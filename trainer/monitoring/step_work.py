"""How long steps work: their time without input and exchange, and the best pace that was kept.

Of steps that were traced it is known how long they exchanged parameters or gradients. Others are
taken to be like the last few traced ones that took about as long as usual: a traced step that
waited for a process that stood still tells nothing of others. No step exchanges for longer than it
took, so neither work nor exchange is ever negative.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics

# A pace is sustained if it is kept for so many seconds of training. Of `_MOST` such pieces, an even
# number, two are put together, so that one is at least a hundredth of the training.
_SUSTAINED, _MOST = 5.0, 100
_BEST_SHARE = 0.1
_TRACES, _UNTRACED = 5, 100
# So many times as long as usual, a step is not like others.
_UNLIKE = 2.0


class TracedExchange:
    """What a step exchanges, in seconds, as the last few traced ones tell."""

    def __init__(self) -> None:
        self._traces: collections.deque[tuple[float, float]] = collections.deque(maxlen=_TRACES)
        self._untraced: collections.deque[float] = collections.deque(maxlen=_UNTRACED)
        # None as long as no traced step was like the others.
        self.each: float | None = None

    def add_untraced(self, seconds: float) -> None:
        """Adds a step without trace."""
        self._untraced.append(seconds)

    def add(self, seconds: float, exchange: float) -> bool:
        """Adds a traced step that took so many `seconds`; returns whether it is like the others."""
        self._traces.append((seconds, exchange))
        usual = statistics.median(self._untraced) if self._untraced else seconds
        # If tracing is dear all traced steps take long: two of them tell.
        traced = min(took for took, _ in self._traces) if len(self._traces) > 1 else 0.0
        longest = _UNLIKE * max(usual, traced)
        alike = [(took, part) for took, part in self._traces if took <= longest]
        if alike:
            self.each = statistics.median(
                part * min(1.0, usual / took) if took else 0.0 for took, part in alike
            )
        return seconds <= longest


@dataclasses.dataclass
class _Piece:
    """Steps that follow each other, and what is between them."""

    examples: int = 0
    trained: float = 0.0  # seconds, with input and exchange
    worked: float = 0.0  # seconds between steps, and of steps whose exchange is known
    # Others: their number, and their seconds with exchange.
    steps: int = 0
    unknown: float = 0.0

    def settle(self, each: float) -> float:
        """Takes the exchange out of steps of which it was not known, and returns it."""
        exchange = min(each * self.steps, self.unknown)
        self.worked += self.unknown - exchange
        self.steps, self.unknown = 0, 0.0
        return exchange


class StepWork:
    """The work and the exchange of all steps of a process."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._current = _Piece()
        self._length = _SUSTAINED
        self._traces = TracedExchange()
        self._exchange = 0.0
        # The seconds of the last step, until it is known whether it was traced.
        self._last: float | None = None

    def add(self, examples: int, seconds: float, *, waited: float = 0, between: float = 0) -> None:
        """Adds a step that took so many `seconds` besides those it `waited` for its batch, and what
        was `between` it and the one before."""
        self.end_step()
        if self._current.trained >= self._length:
            self._begin_piece()
        self._current.examples += examples
        self._current.trained += seconds + waited + between
        self._current.worked += between
        self._last = seconds

    def end_step(self) -> None:
        """The last step was not traced."""
        if self._last is None:
            return
        self._traces.add_untraced(self._last)
        self._current.steps += 1
        self._current.unknown += self._last
        self._last = None
        if self._traces.each is not None:
            self._exchange += self._current.settle(self._traces.each)

    def trace(self, exchange: float) -> bool:
        """The last step was traced, and exchanged for so many seconds; returns whether it was like
        the others."""
        if self._last is None:
            return True
        took, self._last = self._last, None
        exchange = min(took, max(0.0, exchange))
        self._exchange += exchange
        self._current.worked += took - exchange
        is_alike = self._traces.add(took, exchange)
        if self._traces.each is not None:
            for piece in (*self._pieces, self._current):
                self._exchange += piece.settle(self._traces.each)
        return is_alike

    @property
    def exchange(self) -> float:
        """Seconds of exchange so far."""
        return self._exchange + self._of_last

    @property
    def best(self) -> float | None:
        """Seconds of work per example that a tenth of the pieces was no slower than."""
        work = [(one.worked + one.unknown, one.examples) for one in self._pieces]
        if self._current.trained >= self._length:
            last = (self._last or 0.0) - self._of_last
            current = self._current
            work.append((current.worked + current.unknown + last, current.examples))
        paces = sorted(seconds / examples for seconds, examples in work if seconds > 0)
        return paces[int(_BEST_SHARE * len(paces))] if paces else None

    @property
    def _of_last(self) -> float:
        return min(self._last or 0.0, self._traces.each or 0.0)

    def _begin_piece(self) -> None:
        self._pieces.append(self._current)
        self._current = _Piece()
        if len(self._pieces) == _MOST:
            pairs = zip(self._pieces[::2], self._pieces[1::2], strict=True)
            self._pieces = [_join(first, second) for first, second in pairs]
            self._length *= 2


def _join(first: _Piece, second: _Piece) -> _Piece:
    sums = (
        getattr(first, field.name) + getattr(second, field.name)
        for field in dataclasses.fields(_Piece)
    )
    return _Piece(*sums)
