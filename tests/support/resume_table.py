"""The results of tests/e2e/test_resume_matrix.py as a table."""

from __future__ import annotations

import re
from typing import Any

from pipeline.config import strategy_table


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the resume matrix as a table, if more of it was run than in `make test-slow`."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    cells = {}
    for report in reports:
        match = re.search(r"test_resume_matrix.*\[(\w+)-(\w+)\]$", report.nodeid)
        if match and report.when == "call":
            cells[match.groups()] = "ok" if report.passed else "FAILED"
    numbers = {mode: number for number, mode in enumerate(strategy_table.STRATEGIES, 1)}
    if len(cells) <= len(numbers):
        return
    terminalreporter.write_line(
        "resume matrix: saved under the row's mode, resumed under the column's; "
        "those with - are in make test and make test-slow"
    )
    header = "".join(f"{number:>8}" for number in numbers.values())
    terminalreporter.write_line(f"{'':28}{header}")
    for saved, number in numbers.items():
        row = "".join(f"{cells.get((saved, resumed), '-'):>8}" for resumed in numbers)
        terminalreporter.write_line(f"{number} {saved:26}{row}")
