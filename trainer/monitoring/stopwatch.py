"""Measures what a training process spends its time on; each moment counts for one state.

Within a step it is known of each how long it waited for its batch (two readings of the clock in the
graph), and of those that are traced how long they exchanged parameters or gradients: all others are
taken to be like the last few that were.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from pipeline.cluster.tolerance import Tolerance
from pipeline.runs import accounts
from pipeline.runs.accounts import Account
from pipeline.runs.run_folder import RunFolder

# A pace is sustained if it is kept for so many seconds of training. Of more than `_MOST` such
# pieces two are put together, so that one is at least a hundredth of the training.
_SUSTAINED, _MOST = 5.0, 100
_BEST_SHARE = 0.1
_TRACES = 5
_PERIODS, _QUANTILES = 1000, 20
# Left only by a step that is made, or by the end.
_STICKY = ("start", "recovery")
_AFTER_STEP = ("between", "saving", "evaluation", "recovery")
_TRAINING = ("step", "input", "exchange", "between")


class Stopwatch:
    """The account of one process. Its methods may be called by any thread."""

    def __init__(
        self,
        run: RunFolder,
        task: str,
        *,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """It is written at most every `interval` seconds."""
        self._run, self._task, self._interval, self._clock = run, task, interval, clock
        self._lock = threading.RLock()
        self._writing = Tolerance(f"writing where the time of {task} goes", clock=clock)
        self._began, self._state, self._since = time.time(), "start", clock()
        self._seconds = dict.fromkeys(accounts.STATES, 0.0)
        self._examples = self._timed = 0
        # Of states that follow a step, their seconds when it was made.
        self._at_step: dict[str, float] = {}
        # Of steps since the exchange was worked out: their number and their seconds.
        self._open_steps, self._open_seconds = 0, 0.0
        self._exchange: collections.deque[float] = collections.deque(maxlen=_TRACES)
        self._paces = Paces()
        self._periods: collections.deque[float] = collections.deque(maxlen=_PERIODS)
        self._stepped_at: float | None = None
        self._trains, self._written = False, clock()

    @property
    def state(self) -> str:
        """What the process is at."""
        return self._state

    def enter(self, state: str) -> None:
        """What comes from now on is `state`, unless the process starts, recovers or ends."""
        with self._lock:
            if self._state not in (*_STICKY, "end"):
                self._switch(state)

    @contextlib.contextmanager
    def during(self, state: str) -> Iterator[None]:
        """What the body takes is `state`; afterwards it is as before."""
        before = self.pause(state)
        try:
            yield
        finally:
            self.resume(before)

    def pause(self, state: str) -> str:
        """Enters `state` even in a start; returns what `resume` needs to go back."""
        with self._lock:
            before = self._state
            if before != "end":
                self._switch(state)
            return before

    def resume(self, before: str) -> None:
        """Goes back to what was before a `pause`."""
        with self._lock:
            if self._state != "end":
                self._switch(before)

    def begin(self) -> None:
        """Training begins in a new session. A step that did not come back is part of recovering."""
        with self._lock:
            self._trains = True
            self._stepped_at = None
            if self._examples and self._state != "recovery":
                self._state = "recovery"  # the time since the state was entered, too

    def stepped(self, examples: int, waited: float) -> None:
        """A step has come back, which waited so many seconds for its batch."""
        with self._lock:
            began = self._since
            timed = self._state == "step"
            self._switch("between")
            self._examples += examples
            if self._stepped_at is not None:
                self._periods.append(self._since - self._stepped_at)
            self._stepped_at = self._since
            self._at_step = {state: self._seconds[state] for state in _AFTER_STEP}
            if not timed:
                return
            took = self._since - began
            waited = min(took, max(0.0, waited))
            self._timed += examples
            self._move("step", "input", waited)
            self._open_steps += 1
            self._open_seconds += took - waited
            trained = sum(self._seconds[state] for state in _TRAINING)
            self._paces.add(examples, trained, self._settled)

    def traced(self, exchange: float) -> None:
        """A step was traced in which parameters or gradients were waited for so many seconds."""
        with self._lock:
            self._exchange.append(exchange)

    def finish(self) -> None:
        """The last step was made. The save and the evaluation that followed it were of the end, and
        so was the search for a session, if others had closed theirs."""
        with self._lock:
            self._switch("end")
            for state in _AFTER_STEP:
                since = self._seconds[state] - self._at_step.get(state, self._seconds[state])
                self._move(state, "end", since)

    def _switch(self, state: str) -> None:
        now = self._clock()
        self._seconds[self._state] += now - self._since
        self._state, self._since = state, now

    def _move(self, source: str, target: str, seconds: float) -> None:
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def _settle(self) -> None:
        """Takes the exchange out of the steps since the last time."""
        if self._exchange and self._open_steps:
            each = sum(self._exchange) / len(self._exchange)
            self._move("step", "exchange", min(each * self._open_steps, self._open_seconds))
            self._open_steps, self._open_seconds = 0, 0.0

    def _settled(self) -> float:
        """Returns the seconds of work so far: of steps and between them."""
        self._settle()
        return self._seconds["step"] + self._seconds["between"]

    @property
    def account(self) -> Account:
        """The account until now."""
        with self._lock:
            self._settle()
            now = self._clock()
            seconds = {**self._seconds}
            seconds[self._state] += now - self._since
            return Account(
                task=self._task,
                began=self._began,
                until=self._began + sum(seconds.values()),
                seconds={name: round(value, 4) for name, value in seconds.items() if value},
                examples=self._examples,
                timed=self._timed,
                best=self._paces.best,
                periods=_quantiles(self._periods),
                ended=self._state == "end",
            )

    def keep(self, *, now: bool = False) -> None:
        """Writes the account if it is time to, or `now`. A failure never fails the process."""
        with self._lock:
            if not self._trains or not (now or self._clock() - self._written >= self._interval):
                return
            self._written = self._clock()
            account = self.account
        with self._writing.survived():
            accounts.write(self._run, account)


def _quantiles(values: Iterable[float]) -> list[float]:
    """Returns the smallest, the largest, and values between them in equal distances of rank."""
    ordered = sorted(values)
    last = len(ordered) - 1
    ranks = [round(last * n / _QUANTILES) for n in range(_QUANTILES + 1)] if ordered else []
    return [round(ordered[rank], 6) for rank in ranks]


class Paces:
    """How fast steps were made, over pieces of the training: pairs of examples and their work."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, float]] = []
        self._length = _SUSTAINED
        self._examples, self._worked = 0, 0.0
        self._began: float | None = None

    def add(self, examples: int, trained: float, worked: Callable[[], float]) -> None:
        """Adds a step. `trained` are the seconds of training since the process began; `worked`
        tells those of them that were work."""
        if self._began is None:  # before the first piece there is none to take apart
            self._began, self._worked = trained, worked()
            return
        self._examples += examples
        if trained - self._began < self._length:
            return
        total = worked()
        self._pieces.append((self._examples, total - self._worked))
        self._examples, self._worked, self._began = 0, total, trained
        if len(self._pieces) > _MOST:
            pairs = zip(self._pieces[::2], self._pieces[1::2], strict=False)
            self._pieces = [(a + c, b + d) for (a, b), (c, d) in pairs]
            self._length *= 2

    @property
    def best(self) -> float | None:
        """Seconds of work per example that a tenth of the pieces was no slower than."""
        paces = sorted(seconds / examples for examples, seconds in self._pieces)
        return paces[int(_BEST_SHARE * len(paces))] if paces else None
