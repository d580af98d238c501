"""Measures what a training process spends its time on; each moment counts for one state.

Within a step it is known of each how long it waited for its batch (two readings of the clock in the
graph), and of those that are traced how long they exchanged parameters or gradients (`step_work`).
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
from trainer.monitoring.step_work import StepWork

_PERIODS, _QUANTILES = 1000, 20
# Left only by a step that is made, or by the end.
_STICKY = ("start", "recovery")
# A thread that wakes so many seconds late has not run, and if the process used the processor for
# less than a part of them, no other thread has either.
_LATE, _IDLE = 1.0, 0.5
# A process that stands still at these is no more than late.
_WHOLE = (*_STICKY, "end")
_AFTER_STEP = ("between", "saving", "evaluation", "recovery")


class Stopwatch:
    """The account of one process. Its methods may be called by any thread."""

    def __init__(
        self,
        run: RunFolder,
        task: str,
        *,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
    ) -> None:
        """It is written at most every `interval` seconds; `processor` is the time that all threads
        of the process have run."""
        self._run, self._task, self._interval = run, task, interval
        self._clock, self._processor = clock, processor
        self._lock = threading.RLock()
        self._writing = Tolerance(f"writing where the time of {task} goes", clock=clock)
        self._began, self._state, self._since = time.time(), "start", clock()
        self._seconds = dict.fromkeys(accounts.STATES, 0.0)
        self._examples = self._timed = 0
        self._stood = 0.0  # seconds since it is at this state in which the process stood still
        self._has_stopped = False  # in the last step
        # When the thread that sleeps will wake, and the time of the processor when it fell asleep.
        self._wakes: tuple[float, float] | None = None
        # Seconds of the states that follow a step, when it was made.
        self._at_step: dict[str, float] = {}
        # Until there is an account, seconds of `input` have what is hidden, of `step` the exchange.
        self._work = StepWork()
        self._between = 0.0  # those that `_work` has
        self._periods: collections.deque[float] = collections.deque(maxlen=_PERIODS)
        self._stepped_at: float | None = None
        self._trains, self._written = False, clock()

    @property
    def state(self) -> str:
        """What the process is at."""
        return self._state

    @property
    def between(self) -> float:
        """Seconds between steps so far, without saves and evaluations, up to the newest step."""
        return self._seconds["between"]

    def enter(self, state: str) -> None:
        """What comes from now on is `state`, unless the process starts, recovers or ends."""
        with self._lock:
            if self._state not in _WHOLE:
                self._switch(state)

    @contextlib.contextmanager
    def time_state(self, state: str) -> Iterator[None]:
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
            if state == "saving" and before in _STICKY:
                state = "first save"  # of which others know nothing
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

    def record_step(self, examples: int, waited: float, early: float | None = None) -> None:
        """A step has come back, which waited so many seconds for its batch, or whose batch had been
        ready for `early` seconds, if that is known."""
        with self._lock:
            timed = self._state == "step"
            took, stood = self._switch("between")
            self._examples += examples
            if self._stepped_at is not None:
                self._periods.append(self._since - self._stepped_at)
            self._stepped_at = self._since
            self._at_step = {state: self._seconds[state] for state in _AFTER_STEP}
            if not timed:
                self._work.skip()
                return
            waited = min(took, max(0.0, waited))
            self._timed += examples
            self._move("step", "input", waited)
            between = self._seconds["between"] - self._between
            self._between += between
            rest = took - waited
            self._work.add(examples, rest, waited=waited, between=between, early=early)
            self._has_stopped = stood > 0
            if stood:
                self._work.end_step()  # a trace of it tells nothing of others

    def record_trace(self, exchange: float, hidden: float = 0.0) -> bool:
        """The last step was traced: parameters or gradients were waited for so many seconds, and
        while it waited for its batch it did something else for `hidden` seconds. Returns whether
        it took about as long as others."""
        with self._lock:
            return not self._has_stopped and self._work.trace(exchange, hidden)

    @contextlib.contextmanager
    def watch_sleep(self, seconds: float) -> Iterator[None]:
        """A thread sleeps for so long in the body. If it wakes late, the process stood still."""
        with self._lock:
            self._wakes = self._clock() + seconds, self._processor()
        yield
        with self._lock:
            self._look_for_stop(self._clock())
            self._wakes = None

    def _look_for_stop(self, now: float) -> None:
        """Any thread may be the first that runs after a stop."""
        if self._wakes is None or now - self._wakes[0] <= _LATE:
            return
        (wakes, used), self._wakes = self._wakes, None
        if self._processor() - used < _IDLE * (now - wakes):
            self._stood += now - max(wakes, self._since)

    def finish(self) -> None:
        """The last step was made. The save and the evaluation that followed it were of the end, and
        so was the search for a session, if others had closed theirs."""
        with self._lock:
            self._switch("end")
            for state in _AFTER_STEP:
                since = self._seconds[state] - self._at_step.get(state, self._seconds[state])
                self._move(state, "end", since)

    def _switch(self, state: str) -> tuple[float, float]:
        """Returns the seconds of the state before, and those in which it stood still."""
        now = self._clock()
        self._look_for_stop(now)
        took, stood = self._divide(now)
        self._seconds[self._state] += took
        self._seconds["stopped"] += stood
        self._state, self._since, self._stood = state, now, 0.0
        return took, stood

    def _divide(self, now: float) -> tuple[float, float]:
        stood = 0.0 if self._state in _WHOLE else self._stood
        return now - self._since - stood, stood

    def _move(self, source: str, target: str, seconds: float) -> None:
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    @property
    def account(self) -> Account:
        """The account until now."""
        with self._lock:
            now = self._clock()
            seconds = {**self._seconds}
            hidden, exchange = self._work.hidden, self._work.exchange
            seconds["input"] -= hidden
            stalled = self._work.stalled
            seconds["step"] += hidden - exchange - stalled
            seconds["exchange"] += exchange
            seconds["stalled"] += stalled
            took, stood = self._divide(now)
            seconds[self._state] += took
            seconds["stopped"] += stood
            return Account(
                task=self._task,
                began=self._began,
                until=self._began + sum(seconds.values()),
                seconds={name: round(value, 4) for name, value in seconds.items() if value},
                examples=self._examples,
                timed=self._timed,
                late=round(self._work.late, 4),
                best=self._work.best,
                state=self._state,
                periods=_compute_quantiles(self._periods),
                ended=self._state == "end",
            )

    def keep(self, *, now: bool = False) -> None:
        """Writes the account if it is time to, or `now`. A failure never fails the process."""
        with self._lock:
            if not self._trains or not (now or self._clock() - self._written >= self._interval):
                return
            self._written = self._clock()
            account = self.account
        with self._writing.survive():
            accounts.write(self._run, account)


def _compute_quantiles(values: Iterable[float]) -> list[float]:
    """Returns the smallest, the largest, and values between them in equal distances of rank."""
    ordered = sorted(values)
    last = len(ordered) - 1
    ranks = [round(last * n / _QUANTILES) for n in range(_QUANTILES + 1)] if ordered else []
    return [round(ordered[rank], 6) for rank in ranks]
