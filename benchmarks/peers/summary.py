"""What the rounds of a suite come to: medians, and how many times a peer's figure ours is."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from benchmarks.peers.suites import Program, Suite


@dataclasses.dataclass(frozen=True)
class Row:
    """A program: medians of its figures, the least and the largest main one, and `ratio`: how many
    times its main figure ours is. `failure` says why there are none, if so."""

    program: Program
    medians: dict[str, float]
    span: tuple[float, float]
    rounds: int
    ratio: float | None
    versions: dict[str, str]
    failure: str

    @property
    def is_missed(self) -> bool:
        """Whether ours is short of its goal."""
        goal, ratio = self.program.goal, self.ratio
        return goal is not None and ratio is not None and ratio < goal

    @property
    def verdict(self) -> str:
        """Returns the goal, and whether it is met."""
        if self.program.goal is None or self.ratio is None:
            return ""
        return f"≥ {self.program.goal:g}: {'missed' if self.is_missed else 'met'}"


def list_rows(suite: Suite, kept: dict[str, Any]) -> list[Row]:
    """Returns a row for each program that has run or has failed, in the order of the suite."""
    main, found = suite.figures[0].key, []
    medians_of = {name: _compute_medians(suite, of["rounds"]) for name, of in kept.items()}
    for program in suite.programs:
        of = kept.get(program.name)
        if of is None:
            continue
        done, medians = of["rounds"], medians_of[program.name]
        value = medians.get(main)
        ours = medians_of.get(program.against or suite.programs[0].name, {}).get(main)
        every = [one[main] for one in done if main in one] or [0.0]
        found.append(
            Row(
                program,
                medians,
                span=(min(every), max(every)),
                rounds=len(done),
                ratio=ours / value if ours and value else None,
                versions=of["versions"],
                failure=of["failure"],
            )
        )
    return found


def _compute_medians(suite: Suite, done: list[dict[str, float]]) -> dict[str, float]:
    return {
        figure.key: statistics.median(values)
        for figure in suite.figures
        if (values := [one[figure.key] for one in done if one.get(figure.key) is not None])
    }


def describe_missed(found: list[Row]) -> list[str]:
    """Returns a line for each goal that is missed: what the program need not do that ours does."""
    return [
        f"{row.program.title}: {row.ratio:.2f} of it, the goal is {row.program.goal:g}; "
        f"{row.program.why}"
        for row in found
        if row.is_missed
    ]


def list_titles(suite: Suite) -> list[str]:
    """Returns the titles of the columns of `list_cells`."""
    return ["program", *(figure.title for figure in suite.figures), "ours is", "goal", "versions"]


def list_cells(row: Row, suite: Suite) -> list[str]:
    """Returns the cells of a row."""
    figures = [
        figure.form.format(row.medians[figure.key]) if figure.key in row.medians else ""
        for figure in suite.figures
    ]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    title = row.program.title if not row.failure else f"{row.program.title}: {row.failure}"
    return [title, *figures, ratio, row.verdict, versions]


def format_table(found: list[Row], suite: Suite) -> str:
    """Returns a table in Markdown, and a line for each goal that is missed."""
    lines = [list_titles(suite), ["---", *["--:"] * (len(suite.figures) + 1), "---", "---"]]
    lines += [list_cells(row, suite) for row in found]
    drawn = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join(["", f"### {suite.title}", "", *drawn, "", *describe_missed(found)])
