"""The names of an array's runs: that of the array, and an index each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable


def indexes_in(array: str, names: Iterable[str]) -> list[int]:
    """Returns the indexes of those of the runs `names` that are called like runs of an array."""
    pattern = re.compile(rf"{re.escape(array)}-(0|[1-9][0-9]*)")
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def list_names(array: str, indexes: Iterable[int]) -> str:
    """Returns the names of runs of an array in a line, such as `r-0 to r-4, r-7`."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][-1] + 1:
            ranges[-1].append(index)
        else:
            ranges.append([index])
    return ", ".join(
        f"{array}-{found[0]}" + (f" to {array}-{found[-1]}" if len(found) > 1 else "")
        for found in ranges
    )
