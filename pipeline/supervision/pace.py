"""When a run trained, and how far it got, as its processes tell it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pipeline.runs.run_folder import Status


@dataclasses.dataclass
class Pace:
    """When training really took place, in Unix time, and from which step on.

    Training is over when `steps` have been made, whatever the process does after that.
    """

    steps: int
    start_step: int | None = None
    newest_step: int | None = None
    first_step_at: float | None = None
    trained_at: float | None = None

    def see(self, statuses: Iterable[Status]) -> None:
        """Takes in what training processes say of themselves."""
        for status in statuses:
            if status.step is None:
                continue
            self.steps = status.max_steps or self.steps  # of epochs the chief finds it out
            if self.start_step is None:
                self.start_step = status.step
            self.newest_step = max(status.step, self.newest_step or 0)
            if self.trained_at is None and status.step >= self.steps:
                self.trained_at = status.time
            if self.first_step_at is None and status.has_stepped:
                self.first_step_at = status.time
