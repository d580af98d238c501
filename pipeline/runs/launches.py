"""When a run was running: its launches, without the pauses between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from pipeline.runs import run_record
from pipeline.runs.accounts import Account
from pipeline.runs.run_record import RunRecord, WorkerChange

# The statuses of a launch whose processes were not killed, unless their accounts say so.
_IN_ORDER = ("done", "trained", "stopped")
# A process may have begun so many seconds before its launch was recorded.
_BEFORE = 1.0


@dataclasses.dataclass(frozen=True)
class LaunchSpan:
    """One launch: `began` and `ended` in Unix time, its processes by role at its end, the accounts
    of those that trained, by their beginning, the status that it left, if that is known, when its
    number of workers changed, and its strategy, if that is known."""

    began: float
    ended: float
    topology: dict[str, int]
    accounts: Sequence[Account]
    status: str | None
    scalings: Sequence[WorkerChange] = ()
    strategy: str | None = None

    @property
    def seconds(self) -> float:
        """How long it took; a clock may have been set back."""
        return max(0.0, self.ended - self.began)

    @property
    def was_cut_off(self) -> bool:
        """True if it may have ended with a process in the middle of a step, because that was killed
        and not started again."""
        newest = {one.task: one for one in self.accounts}
        return self.status not in _IN_ORDER or any(one.was_cut_off for one in newest.values())


def list_launches(
    record: RunRecord,
    known: Iterable[Account] = (),
    *,
    last_sign: float | None = None,
    now: float | None = None,
) -> list[LaunchSpan]:
    """Returns all launches, the oldest first. The newest launch of a run at work ends at `now`.

    One that was killed ended with the last sign of life: that of its launcher, as the record has
    it, of its processes, if their accounts are `known`, or `find_last_sign` of the newest launch.
    One that gave none took no time.
    """
    known = sorted(known, key=lambda one: one.began)
    if record.started is None and known:  # of an earlier version
        record = record.model_copy(update={"started": known[0].began})
    recorded = run_record.launches(record, last_sign)
    if not recorded:
        return []
    begins = [launch.started - _BEFORE for launch in recorded[1:]]
    found: list[LaunchSpan] = []
    for launch, until in zip(recorded, [*begins, float("inf")], strict=True):
        own = [one for one in known if launch.started - _BEFORE <= one.began < until]
        # It may have waited for the end of the one before.
        began = max(launch.started, found[-1].ended) if found else launch.started
        ended = launch.ended if launch.ended is not None else began
        if now is not None and launch is recorded[-1]:
            ended = now
        ended = max([ended, *(one.until for one in own)])
        found.append(
            LaunchSpan(
                began,
                ended,
                launch.topology,
                own,
                launch.status,
                scalings=launch.scalings,
                strategy=launch.strategy,
            )
        )
    return found


def seconds(spans: Iterable[LaunchSpan]) -> float:
    """Returns how long a run was running, in all its launches."""
    return sum(one.seconds for one in spans)
