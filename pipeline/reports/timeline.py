"""What happened when: starts, ends, deaths, saves and evaluations of a run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator

from pipeline.console.progress import duration
from pipeline.pages import charts, document
from pipeline.pages.charts import Frame
from pipeline.reports.facts import Facts
from pipeline.runs import liveness
from pipeline.runs.launches import LaunchSpan
from pipeline.runs.run_record import Restart

_LANES = ("starts", "ends", "saves", "eval")
_COLORS = (charts.BLUE, "#7a6a53", charts.GREEN, charts.ORANGE)
# Of what ended otherwise than it should: a row below the starts and ends.
_DEATHS, _DEATHS_ROW, _DEATHS_COLOR = "deaths", 2, "#c0504d"
_DIED = ("running", "failed")  # statuses of such launches
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
    launches = list(_launches(facts))
    lanes: tuple[list[tuple[float | None, str]], ...] = (
        [
            *((one.began, f"launch {number} began") for number, one in launches),
            *((one.time, f"training begins at step {one.step:,}") for one in training.starts),
        ],
        list(_ends(facts, launches)),
        [(one.time, f"saved at step {one.step:,}") for one in training.saves],
        [
            (point.time, f"{split} at step {point.step:,}: loss {point.value:.4g}")
            for split, found in facts.evaluations.items()
            for point in found.curves.get("loss", [])
        ],
    )
    deaths = sorted(_find_deaths(facts, launches))
    times = [at for lane in lanes for at, _ in lane if at is not None]
    times += [at for at, _, _ in deaths]
    if not times:
        return ""
    clock = TimeAxis(min(times), max(max(times), min(times) + 1))
    rows = [*_LANES[:_DEATHS_ROW], _DEATHS, *_LANES[_DEATHS_ROW:]]
    height = {name: len(rows) - n - 0.5 for n, name in enumerate(rows)}
    frame = Frame(
        (clock.begin, clock.end),
        (0, len(rows)),
        clock.label,
        width=600,
        height=40 + 30 * len(rows),
        x_ticks=clock.ticks,
        y_ticks=[(height[name], name) for name in rows],
    )
    marks = [
        frame.spot(at, height[name], color, label=what)
        for name, lane, color in zip(_LANES, lanes, _COLORS, strict=True)
        for at, what in lane[-2000:]
        if at is not None
    ]
    marks.append(frame.crosses(deaths[-2000:], height[_DEATHS], _DEATHS_COLOR))
    return document.section(
        "Timeline",
        '<div class="wide">',
        frame.draw(*marks),
        "</div>",
        _describe_losses(record.restarts),
    )


def _launches(facts: Facts) -> Iterator[tuple[int, LaunchSpan]]:
    """Yields the number of each launch, and the launch; of very many the first are not recorded."""
    yield from enumerate(facts.launches, facts.record.launches - len(facts.launches) + 1)


def _has_ended(facts: Facts, one: LaunchSpan) -> bool:
    return one is not facts.launches[-1] or facts.state not in liveness.AT_WORK


def _ends(
    facts: Facts, launches: Iterable[tuple[int, LaunchSpan]]
) -> Iterator[tuple[float | None, str]]:
    """Yields when launches ended that did not die, and how."""
    for number, one in launches:
        if _has_ended(facts, one) and one.status not in _DIED:
            yield one.ended, f"launch {number} ended{f': {one.status}' if one.status else ''}"


def _find_deaths(
    facts: Facts, launches: Iterable[tuple[int, LaunchSpan]]
) -> Iterator[tuple[float, str, str]]:
    """Yields when launches and processes died, which, and how."""
    for number, one in launches:
        if _has_ended(facts, one) and one.status in _DIED:
            # A launcher that was killed has not recorded another status.
            how = "died" if one.status == "running" else one.status
            yield one.ended, f"launch {number}", f"launch {number} {how}"
    for lost in facts.record.restarts:
        if lost.time is not None:
            yield lost.time, _name_task(lost), f"{_name_task(lost)}: {lost.cause}"


def _name_task(one: Restart) -> str:
    return f"{one.role}-{one.index}"


def _describe_losses(restarts: list[Restart]) -> str:
    if not restarts:
        return ""
    rows = [
        (
            "" if one.time is None else time.strftime("%H:%M:%S", time.gmtime(one.time)),
            _name_task(one),
            one.cause,
            "" if one.step is None else f"{one.step:,}",
            "" if one.steps_lost is None else f"{one.steps_lost:,}",
            "" if one.seconds_to_next_step is None else duration(one.seconds_to_next_step),
        )
        for one in restarts[-100:]
    ]
    head = ("UTC", "process", "cause", "at step", "steps lost", "to the next step")
    return document.table(head, rows, right={3, 4, 5})
