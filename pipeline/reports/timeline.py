"""What happened when: starts, losses, restarts, saves and evaluations of a run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from pipeline.console.progress import duration
from pipeline.pages import charts, document
from pipeline.pages.charts import Frame
from pipeline.reports.facts import Facts
from pipeline.runs import liveness
from pipeline.runs.run_record import Restart

_LANES = ("starts", "lost", "saves", "eval")
_COLORS = (charts.BLUE, "#c0504d", charts.GREEN, charts.ORANGE)
_UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """A time axis from one Unix time to another, which counts from its beginning."""

    begin: float
    end: float

    @property
    def _unit(self) -> tuple[float, str]:
        span = self.end - self.begin
        return next((one for one in _UNITS if span >= 2 * one[0]), _UNITS[-1])

    @property
    def label(self) -> str:
        """Says what the axis counts, and from when."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.begin))
        return f"{self._unit[1]} since {stamp} UTC"

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places of round numbers on the axis, and these."""
        size = self._unit[0]
        numbers = charts.ticks(0.0, (self.end - self.begin) / size)
        return [(self.begin + n * size, charts.number(n)) for n in numbers]


def section(facts: Facts) -> str:
    """Returns the timeline, and a table of what was lost; empty if nothing has a time."""
    training, record = facts.training, facts.record
    restarts = [one for one in record.restarts if one.time is not None]
    lanes: tuple[list[tuple[float | None, str]], ...] = (
        [
            *_launches(facts),
            *((one.time, f"training begins at step {one.step:,}") for one in training.starts),
        ],
        [(one.time, f"{_who(one)}: {one.cause}") for one in restarts],
        [(one.time, f"saved at step {one.step:,}") for one in training.saves],
        [
            (point.time, f"{split} at step {point.step:,}: loss {point.value:.4g}")
            for split, found in facts.evaluations.items()
            for point in found.curves.get("loss", [])
        ],
    )
    times = [at for lane in lanes for at, _ in lane if at is not None]
    if not times:
        return ""
    clock = TimeAxis(min(times), max(max(times), min(times) + 1))
    count = len(_LANES)
    frame = Frame(
        (clock.begin, clock.end),
        (0, count),
        clock.label,
        width=600,
        height=40 + 30 * count,
        x_ticks=clock.ticks,
        y_ticks=[(count - n - 0.5, name) for n, name in enumerate(_LANES)],
    )
    marks = []
    for n, (lane, color) in enumerate(zip(lanes, _COLORS, strict=True)):
        for at, what in lane[-2000:]:
            if at is not None:
                marks.append(frame.spot(at, count - n - 0.5, color, label=what))
    return document.section(
        "Timeline", '<div class="wide">', frame.draw(*marks), "</div>", _losses(record.restarts)
    )


def _launches(facts: Facts) -> Iterator[tuple[float, str]]:
    """Yields when each launch began and ended, and how; of very many the first are not recorded."""
    first = facts.record.launches - len(facts.launches) + 1
    for number, one in enumerate(facts.launches, first):
        yield one.began, f"launch {number} began"
        if one is facts.launches[-1] and facts.state in liveness.AT_WORK:
            return
        # A launcher that was killed has not recorded another status.
        how = "died" if one.status == "running" else one.status
        yield one.ended, f"launch {number} ended{f': {how}' if how else ''}"


def _who(one: Restart) -> str:
    return f"{one.role}-{one.index}"


def _losses(restarts: list[Restart]) -> str:
    if not restarts:
        return ""
    rows = [
        (
            "" if one.time is None else time.strftime("%H:%M:%S", time.gmtime(one.time)),
            _who(one),
            one.cause,
            "" if one.step is None else f"{one.step:,}",
            "" if one.steps_lost is None else f"{one.steps_lost:,}",
            "" if one.seconds_to_next_step is None else duration(one.seconds_to_next_step),
        )
        for one in restarts[-100:]
    ]
    head = ("UTC", "process", "cause", "at step", "steps lost", "to the next step")
    return document.table(head, rows, right={3, 4, 5})
