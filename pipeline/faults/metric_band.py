"""Which values of the metric of a disturbed run are right: those of a band, by undisturbed runs."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable

from pipeline.console.figures import figure

# Share of the metric by which it may differ from undisturbed ones, if these differ by less.
_MARGIN = 0.005
# By the number of runs: between plus and minus so many standard errors are 99 of 100 values of
# Student's t. Of two runs that would be 64, which no value is beyond.
_SURE = {3: 9.925, 4: 5.841, 5: 4.604, 6: 4.032, 7: 3.707, 8: 3.499, 9: 3.355, 10: 3.250}
# Share of its middle by which a band may reach to either side before it is said to be wide.
_WIDE = 0.1


@dataclasses.dataclass(frozen=True)
class Band:
    """The values of the metric that undisturbed runs reach, by so many `runs`."""

    metric: str
    low: float
    high: float
    runs: int

    @property
    def width(self) -> str:
        """How far it reaches to either side of its middle, for people; with a remedy if far."""
        middle, half = abs(self.low + self.high) / 2, (self.high - self.low) / 2
        by = f"by {self.runs} run{'s' * (self.runs > 1)}"
        if half <= _WIDE * middle:
            share = 100 * half / middle if middle else 0.0
            return f"the band of {self.metric} is ±{share:.2g} % {by}"
        reach = f"±{100 * half / middle:.0f} %" if half < 100 * middle else "on both sides of 0"
        more = max(8, 2 * self.runs)
        return f"the band of {self.metric} is wide: {reach} {by}; BASELINE={more} narrows it"

    def __str__(self) -> str:
        return f"{figure(self.low)} to {figure(self.high)}"


def compute_band(metric: str, found: Iterable[float | None]) -> Band | None:
    """Returns what the metric may be, `None` if undisturbed runs have `found` none.

    Of three runs or more: where 99 of 100 others would be, if the seed alone made the difference.
    Two cannot tell: what they reach, and on either side as much as they differ by, which one in
    three others is beyond. The margin is never less than half a percent.
    """
    values = [value for value in found if value is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    margin = high - low
    if len(values) >= min(_SURE):
        error = statistics.stdev(values) * math.sqrt(1 + 1 / len(values))
        margin = _SURE[min(len(values), max(_SURE))] * error
        low = high = statistics.fmean(values)
    margin = max(margin, _MARGIN * max(abs(low), abs(high)))
    return Band(metric, low - margin, high + margin, len(values))


def check_metric(allowed: Band | None, value: float | None) -> list[str]:
    """Returns what is wrong with the value of the metric, if there is a band for it."""
    if allowed is None or (value is not None and allowed.low <= value <= allowed.high):
        return []
    shown = "missing" if value is None else figure(value)
    return [f"{allowed.metric} is {shown}, and undisturbed runs allow {allowed}"]
