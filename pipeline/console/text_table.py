"""Rows of text lined up in columns as wide as what is in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len


def lines(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Returns a line a row. Columns whose numbers are in `right` are lined up at their right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    found = []
    for row in rows:
        cells = list(row)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - cell_len(cell))
            cells[number] = blank + cell if number in right else cell + blank
        found.append("  ".join(cells).rstrip())
    return found
