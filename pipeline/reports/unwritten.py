"""What a process did between the last account it wrote and its loss."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.runs.accounts import Account
from pipeline.runs.run_record import Restart

# States of a process that makes step after step.
_STEPS = ("step", "input", "exchange", "between")


def extend(
    known: Iterable[Account], restarts: Iterable[Restart], *, longest: float
) -> list[Account]:
    """Returns accounts of a run; those of lost processes that were making steps reach to the loss,
    as they went on with that at their average pace. Of a process that wrote none for `longest`
    seconds it is not known what it did."""
    found = []
    losses = [(f"{one.role}-{one.index}", one.time) for one in restarts if one.time is not None]
    known = sorted(known, key=lambda one: one.began)
    for number, account in enumerate(known):
        later = (one.began for one in known[number + 1 :] if one.task == account.task)
        until = min(next(later, float("inf")), account.until + longest)
        times = [at for task, at in losses if task == account.task and account.until <= at <= until]
        found.append(_extend(account, min(times)) if times else account)
    return found


def _extend(account: Account, until: float) -> Account:
    spent = {state: account.seconds.get(state, 0.0) for state in _STEPS}
    whole = sum(spent.values())
    if account.state not in _STEPS or account.ended or whole <= 0:
        return account
    more = (until - account.until) / whole
    return account.model_copy(
        update={
            "until": until,
            "seconds": {
                **account.seconds,
                **{state: (1 + more) * seconds for state, seconds in spent.items() if seconds},
            },
            "examples": account.examples + round(more * account.timed),
            "timed": account.timed + round(more * account.timed),
            "late": (1 + more) * account.late,
        }
    )
