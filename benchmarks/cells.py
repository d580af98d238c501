"""Long benchmarks cell by cell: each writes a line when it is measured, and a second call goes on.

    found = cells.measure(list_of_cells, pathlib.Path(root, "reference.jsonl"))

A line is `{"cell": name, "seconds": …, "load": [before, after], "result": {…}}`; `load` is the
one-minute load average, so that figures of a busy machine can be told from those of an idle one.
Delete the file, or lines of it, to measure again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.storage import strict_json

Line = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Cell:
    """Something to measure. `name` must say all that its result depends on; `seconds` is about how
    long it takes."""

    name: str
    measure: Callable[[], Mapping[str, Any]]
    seconds: float


def measure(
    cells: Sequence[Cell], path: pathlib.Path, clock: Callable[[], float] = time.time
) -> dict[str, Line]:
    """Measures the cells that `path` has no line of, and returns the lines of all by name."""
    found = read(path)
    title = path.stem
    here = [cell for cell in cells if cell.name not in found]
    if len(here) < len(cells):
        print(f"{title}: {len(cells) - len(here)} of {len(cells)} cells are in {path}", flush=True)
    expected = taken = 0.0
    for number, cell in enumerate(here):
        pace = taken / expected if expected else 1.0
        left = pace * sum(one.seconds for one in here[number:]) / 60
        done = len(cells) - len(here) + number
        print(f"{title}: {done} of {len(cells)}, {left:.0f} min left: {cell.name}", flush=True)
        found[cell.name] = _measure_cell(cell, path, clock)
        expected, taken = expected + cell.seconds, taken + found[cell.name]["seconds"]
        print(f"  {strict_json.dumps(found[cell.name]['result'])[:300]}", flush=True)
    return {cell.name: found[cell.name] for cell in cells}


def _measure_cell(cell: Cell, path: pathlib.Path, clock: Callable[[], float]) -> Line:
    before, began = os.getloadavg()[0], clock()
    result = cell.measure()
    line = {
        "cell": cell.name,
        "seconds": round(clock() - began, 1),
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "result": result,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(strict_json.dumps(line) + "\n")
    return line


def read(path: pathlib.Path) -> dict[str, Line]:
    """Returns the lines of a file by cell. The end of a line whose writing was interrupted is cut
    off, so that the next one can follow."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return {line["cell"]: line for line in map(json.loads, whole.splitlines())}
