"""What a soak has found, as a table for people and as JSON."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from pipeline.console import text_table
from tests.faults.campaign import Tally

_COLUMNS = (
    "mode",
    "kills",
    "runs",
    "lost",
    "steps right",
    "one export",
    "processes",
    "more",
    "never",
    "unread",
    "apart",
    "ledger more",
    "ledger never",
    "bound",
    "verdict",
)


def table(tallies: list[Tally]) -> str:
    """Returns what was found, a row a mode."""
    rows = [_COLUMNS, *map(_row, tallies)]
    return "\n".join(text_table.lines(rows, right=range(1, len(_COLUMNS) - 1)))


def _row(tally: Tally) -> tuple[str, ...]:
    found, runs = tally.verdicts, len(tally.verdicts) + tally.lost
    steps = sum(not any(w.startswith("final step") for w in v.wrong) for v in found)
    sums = [
        sum(v.left for v in found),
        sum(v.applied.more for v in found),
        sum(v.applied.never for v in found),
        sum(v.applied.left for v in found),
        sum(v.applied.apart for v in found),
        sum(v.applied.ledger_more for v in found),
        sum(v.applied.ledger_never for v in found),
        sum(v.bound for v in found),
    ]
    return (
        tally.mode,
        str(sum(tally.kills.values())),
        str(runs),
        str(tally.lost),
        f"{steps}/{runs}",
        f"{sum(v.exports == 1 for v in found)}/{runs}",
        *map(str, sums),
        _verdict(tally),
    )


def _verdict(tally: Tally) -> str:
    if tally.wrong:
        return f"{len(tally.wrong)} wrong"
    return "kept" if tally.verdicts else "no run ended"


def write(path: pathlib.Path, tallies: list[Tally], command: str) -> None:
    """Prints the table and the command that repeats it, and stores them in `path` and as JSON."""
    lines = [table(tallies)]
    for tally in tallies:
        by_role = ", ".join(f"{role} {count}" for role, count in sorted(tally.kills.items()))
        lines.append(f"{tally.mode}: killed {by_role}")
        lines += [f"  {line}" for line in tally.wrong]
    lines.append(f"again: {command}")
    path.write_text("\n".join(lines) + "\n")
    modes = [{**vars(t), "verdicts": [dataclasses.asdict(v) for v in t.verdicts]} for t in tallies]
    found = json.dumps({"command": command, "modes": modes}, indent=1)
    path.with_suffix(".json").write_text(found + "\n")
    print(path.read_text(), flush=True)
