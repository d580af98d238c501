"""`history.json`: how fast each process of a run was, over time.

Everything else that a report shows over time is in event files; only the chief writes those.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import pydantic

from pipeline import errors
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status

FILE_NAME = "history.json"
# With more samples than this, every other one is dropped, and half as many are taken from then on.
MOST = 300
# A process stands still if it has made no step for so many seconds, and for so many times as long
# as the one before took.
_STILL, _TIMES = 5.0, 3


class SpeedSample(pydantic.BaseModel):
    """What the processes that train said at one time, in Unix seconds: step and examples per
    second, by task. Of one that stood still the latter is 0."""

    time: float
    tasks: dict[str, tuple[int, float]]


class History(pydantic.BaseModel):
    """Samples at least `interval` seconds apart, but for the first one of a process."""

    model_config = pydantic.ConfigDict(extra="ignore")

    interval: float
    samples: list[SpeedSample] = []


def read(run: RunFolder) -> History | None:
    """Returns the history of a run, or `None` if there is none that can be used."""
    try:
        content = run.impatient.read(FILE_NAME)
        return None if content is None else History.model_validate(content)
    except (errors.PipelineError, pydantic.ValidationError):
        return None


@dataclasses.dataclass(frozen=True)
class _StepSeen:
    """When the newest step of a process was first seen, and how long after the one before; unknown
    of the first."""

    step: int | None
    at: float
    after: float | None = None

    def advance(self, step: int | None, now: float) -> _StepSeen:
        return self if step == self.step else _StepSeen(step, now, now - self.at)

    def stands_still(self, now: float) -> bool:
        return self.after is not None and now - self.at > max(_STILL, _TIMES * self.after)


@dataclasses.dataclass
class Recorder:
    """Takes samples of what the processes of a run say, and keeps them in its folder.

    There is one small file, written at most once an interval; what cannot be written is left out.
    """

    run: RunFolder
    clock: Callable[[], float] = time.time
    most: int = MOST

    def __post_init__(self) -> None:
        earlier = read(self.run)
        self._history = earlier or History(interval=run_folder.beat_interval(self.run))
        self._newest = 0.0
        self._steps: dict[str, _StepSeen] = {}
        self._sampled: set[str] = set()

    def see(self, statuses: Mapping[str, Status]) -> None:
        """Takes a sample if it is time for one and something trains. To be called far more often:
        by how long a step stays the same it is known who stands still."""
        now = self.clock()
        for name, status in statuses.items():
            known = self._steps.get(name, _StepSeen(status.step, now))
            self._steps[name] = known.advance(status.step, now)
        tasks: dict[str, Any] = {
            name: (
                status.step,
                0.0 if self._steps[name].stands_still(now) else status.examples_per_second,
            )
            for name, status in statuses.items()
            if status.state == "training"
            and status.step is not None
            and status.examples_per_second is not None
        }
        # One that has begun to train has a sample at once: it may have ended an interval later. A
        # clock that was set back does not end the sampling.
        due = not 0 <= now - self._newest < self._history.interval
        if not tasks or not (due or tasks.keys() - self._sampled):
            return
        self._sampled |= tasks.keys()
        self._newest = now
        samples = [*self._history.samples, SpeedSample(time=now, tasks=tasks)]
        interval = self._history.interval
        if len(samples) > self.most:
            samples, interval = samples[::2], 2 * interval
        self._history = History(interval=interval, samples=samples)
        try:
            self.run.impatient.write(FILE_NAME, self._history.model_dump(mode="json"))
        except (errors.PipelineError, OSError):
            return
