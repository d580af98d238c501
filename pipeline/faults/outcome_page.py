"""What came of a disturbed run: a table for the terminal, the same as a page, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from pipeline.console import progress, text_table
from pipeline.console.figures import figure
from pipeline.faults.draw import Fault
from pipeline.faults.experiment import Outcome
from pipeline.faults.metric_band import Band
from pipeline.pages import document

_COLUMNS = (
    "#",
    "step",
    "fault",
    "of",
    "next step",
    "steps lost",
    "doubled",
    "missed",
    "note",
)
_NUMBERS = (0, 1, 4, 5, 6, 7)


def lines(outcome: Outcome, allowed: Band | None, left_out: Mapping[str, str]) -> list[str]:
    """Returns the faults as a table, what was not tried, and whether the end is right."""
    rows = [_COLUMNS, *(_build_row(n, fault) for n, fault in enumerate(outcome.faults, 1))]
    return [
        *text_table.lines(rows, right=_NUMBERS),
        *(f"not tried: {what}: {why}" for what, why in left_out.items()),
        *(f"{name}: {value}" for name, value in _end(outcome, allowed)),
        *(f"wrong: {line}" for line in outcome.wrong),
        f"verdict: {verdict(outcome, allowed)}",
    ]


def verdict(outcome: Outcome, allowed: Band | None) -> str:
    """Says whether the end is right, in a few words, and how narrow the band is that says so."""
    found = f"{len(outcome.wrong)} wrong" if outcome.wrong else "the end is right"
    return found if allowed is None else f"{found}; {allowed.width}"


def _build_row(number: int, fault: Fault) -> tuple[str, ...]:
    if fault.struck is None:
        rest = ("-", "-", "-", "-", fault.note or "not reached before training ended")
    else:
        seconds, lost = fault.seconds_to_next_step, fault.steps_lost
        rest = (
            "-" if seconds is None else f"{seconds:.1f} s",
            "-" if lost is None else f"{lost:,}",
            f"{fault.doubled:,}",
            f"{fault.missed:,}",
            fault.note,
        )
    what = f"{fault.kind}, {fault.seconds:g} s" if fault.seconds else fault.kind
    return (
        str(number),
        f"{fault.step if fault.at is None else fault.at:,}",
        what,
        fault.target,
        *rest,
    )


def _end(outcome: Outcome, allowed: Band | None) -> list[tuple[str, str]]:
    step = "none" if outcome.step is None else f"{outcome.step:,} of {outcome.wanted:,}"
    doubled = f"{outcome.doubled:,}"
    if outcome.uncounted:
        doubled += f" by the ledger, {outcome.uncounted:,} of updates that it does not have"
    found = [
        ("final step", step),
        ("final exports", str(outcome.exports)),
        ("records applied more than once", f"{doubled} (at most {outcome.bound:,})"),
        ("records never applied", f"{outcome.missed:,} (at most 0)"),
    ]
    if allowed is not None:
        value = "none" if outcome.value is None else figure(outcome.value)
        found.insert(2, (allowed.metric, f"{value} (allowed {allowed})"))
    found.append(("launches", f"{outcome.launches}, {outcome.restarts} restarts of processes"))
    found.append(("time", progress.duration(outcome.seconds)))
    return found


def page(
    title: str, outcome: Outcome, *, allowed: Band | None, left_out: Mapping[str, str], command: str
) -> str:
    """Returns the HTML page."""
    rows = [_build_row(n, fault) for n, fault in enumerate(outcome.faults, 1)]
    kind = "bad" if outcome.wrong else "good"
    parts = [
        document.section(
            "The end",
            document.tiles([("verdict", _mark(kind, verdict(outcome, allowed)))]),
            document.table(("", ""), _end(outcome, allowed)),
            *(f"<p>{_mark('bad', f'wrong: {line}')}</p>" for line in outcome.wrong),
        ),
        document.section("The faults", document.table(_COLUMNS, rows, right=_NUMBERS)),
    ]
    if left_out:
        table = document.table(("fault", "why"), left_out.items())
        parts.append(document.section("Not tried", table))
    lead = f"Again: <code>{document.escape(command)}</code>"
    return document.document(title, lead, parts)


def _mark(kind: str, text: str) -> document.Markup:
    return document.Markup(f'<span class="{kind}">{document.escape(text)}</span>')


def format_json(outcome: Outcome, allowed: Band | None, command: str) -> str:
    """Returns everything, for machines."""
    content = {
        "command": command,
        "band": None if allowed is None else dataclasses.asdict(allowed),
        **dataclasses.asdict(outcome),
    }
    return json.dumps(content, indent=1) + "\n"
