"""`time/`: where the time of each process that trains went, a file for each start of one.

A process that is started again has another file, and so has one of a later launch, so that what a
lost process did is still known.
"""

from __future__ import annotations

import pydantic

from pipeline import errors, storage
from pipeline.runs.run_folder import RunFolder

FOLDER = "time"
# What a process can be at, one at a time. `between` are hooks between two steps, `first save` comes
# before the first step of a start, `end` is all that comes after the last step. A process is
# `stopped` while no thread of it runs, and a step that takes many times as long as others has
# `stalled` for what it takes more.
STATES = (
    "start",
    "step",
    "input",
    "exchange",
    "stalled",
    "stopped",
    "between",
    "saving",
    "first save",
    "evaluation",
    "waiting",
    "recovery",
    "end",
)


class Account(pydantic.BaseModel):
    """The time of one process from `began` to `until`, in Unix time, by state: its `seconds` add up
    to that. `examples` are those it has trained on, `timed` of them in steps whose time is known:
    the first one after each start is part of that. `late` are seconds of `exchange` in which the
    next batch was not ready either: without the exchange the process would have waited for that.
    `best` is the best sustained time of steps per example, in seconds, without input and exchange;
    `None` if no pace was kept for long enough. `state` is what it was at in the end."""

    model_config = pydantic.ConfigDict(extra="ignore")

    task: str
    began: float
    until: float
    seconds: dict[str, float]
    examples: int = 0
    timed: int = 0
    late: float = 0.0
    best: float | None = None
    state: str | None = None
    # Quantiles of the seconds from one step to the next, of the last thousand: from the shortest to
    # the longest.
    periods: list[float] = []
    # True once it has made its last step.
    ended: bool = False

    @property
    def was_cut_off(self) -> bool:
        """True if it ended while it made a step."""
        return not self.ended and "step" in self.seconds


def write(run: RunFolder, account: Account) -> None:
    """Stores the account of a process, over what it has stored before."""
    name = f"{FOLDER}/{account.task}-{1000 * account.began:.0f}.json"
    run.impatient.write(name, account.model_dump(mode="json"))


def read(run: RunFolder) -> list[Account]:
    """Returns all accounts of a run, by their beginning. Those that cannot be read are left out."""
    found = []
    for name in storage.listdir(storage.join(run.path, FOLDER)):
        if not name.endswith(".json"):
            continue
        try:
            content = run.impatient.read(f"{FOLDER}/{name}")
            found += [Account.model_validate(content)] if content else []
        except (errors.PipelineError, pydantic.ValidationError):
            continue
    return sorted(found, key=lambda one: one.began)
