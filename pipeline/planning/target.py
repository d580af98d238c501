"""What a plan is to reach, and the smallest topology that does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from pipeline import errors
from pipeline.planning.costs import Outlook

_KINDS = ("examples_per_second", "hours", "usd")


@dataclasses.dataclass(frozen=True)
class Target:
    """At least so many `examples_per_second`, or at most so many `hours` or `usd` to the end."""

    kind: str
    value: float

    def is_met(self, outlook: Outlook) -> bool:
        """True if the cautious end of the range meets it. A rate past a saturation that was
        not measured meets no target, unless training ends by `train.max_seconds`."""
        if self.kind == "examples_per_second":
            return not outlook.predicted.is_bound and outlook.useful_low >= self.value
        if outlook.is_open:
            return False
        found = outlook.hours if self.kind == "hours" else outlook.usd
        return found is not None and found[1] <= self.value

    def __str__(self) -> str:
        return f"{self.kind}={self.value:g}"


def parse(text: str) -> Target:
    """Returns the target that `text` names. Raises `UsageError` for anything else."""
    kind, equals, number = text.strip().partition("=")
    if not equals or kind not in _KINDS:
        raise errors.UsageError(
            f"--target={text!r}: must be one of {', '.join(f'{one}=…' for one in _KINDS)}"
            f"{errors.suggest(kind, _KINDS)}"
        )
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise errors.UsageError(f"--target={text!r}: {number!r} must be a number above 0")
    return Target(kind, value)


def choose(target: Target, outlooks: Sequence[Outlook]) -> Outlook:
    """Returns the cheapest topology that meets the target: of equal prices, or without any, that of
    the fewest processes. Raises `UsageError` if none does, with the nearest."""
    met = [one for one in outlooks if target.is_met(one)]
    if met:
        return min(met, key=lambda one: (one.usd_an_hour, one.predicted.processes))
    best = find_fastest(outlooks)
    at_least = f"{best.useful_low:,.0f} examples/s"
    if best.hours is not None:
        at_least += f", {best.hours[1]:,.3g} hours"
    if best.usd is not None:
        at_least += f", {best.usd[1]:,.2f} USD"
    raise errors.UsageError(
        f"--target={target}: none of the {len(outlooks)} topologies is sure to reach it; "
        f"the fastest, {best.name}, reaches {at_least}, limited by {best.predicted.bottleneck}. "
        "Ask for others, or for less"
    )


def find_fastest(outlooks: Sequence[Outlook]) -> Outlook:
    """Returns the fastest topology at the cautious end of its range: of those whose limits were
    measured, if there are any; of equal ones that of the fewest processes."""
    return max(
        outlooks,
        key=lambda one: (
            not one.predicted.is_bound,
            one.useful_low,
            -one.predicted.processes,
        ),
    )
