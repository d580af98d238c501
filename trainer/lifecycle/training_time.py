"""How long a run has trained, over all its starts: what `train.max_seconds` limits."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline.cluster.tolerance import Tolerance
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

# {"seconds": float}, written by the chief now and then while it trains.
TRAINING_TIME = "training_time.json"


class TrainingTime:
    """Counts the seconds since the first session of a chief, on top of those of earlier chiefs of
    the run. A chief that is killed loses the seconds since they were kept last."""

    def __init__(self, run: RunFolder, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._clock = run, clock
        self._interval = run_folder.beat_interval(run)
        self._writing = Tolerance("keeping the seconds of training", clock=clock)
        self._before, self._began, self._kept = 0.0, 0.0, 0.0
        self._runs = False

    def begin(self) -> None:
        """Begins to count; another session of the same process changes nothing. Raises `DataError`
        if what earlier chiefs have kept cannot be read."""
        if not self._runs:
            kept = self._run.read(TRAINING_TIME) or {"seconds": 0.0}
            self._before = float(kept["seconds"])
            self._began = self._kept = self._clock()
            self._runs = True

    @property
    def seconds(self) -> float:
        """Seconds of training so far, of this run."""
        return self._before + self._clock() - self._began if self._runs else 0.0

    def keep(self, *, now: bool = False) -> None:
        """Writes the seconds if it is time to, or `now`. A write that fails is made again later."""
        if self._runs and (now or self._clock() - self._kept >= self._interval):
            self._kept = self._clock()
            with self._writing.survive():
                self._run.write(TRAINING_TIME, {"seconds": round(self.seconds, 3)})
