"""Rows of text lined up in columns as wide as what is in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def lines(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Returns a line a row. Columns whose numbers are in `right` are lined up at their right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:>{width}}" if number in right else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
