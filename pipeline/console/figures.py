"""Metrics and other measured numbers as text."""

from __future__ import annotations

import math

# From these on, four decimals would be all zeros, or digits that float32 does not have.
_SMALL, _LARGE = 1e-3, 1e6


def figure(value: float, decimals: int = 4) -> str:
    """Returns a number with `decimals`; small and large ones, such as errors of a label about 1e-6,
    by their first digits. What is not a number is `undefined`."""
    if math.isnan(value):
        return "undefined"
    if value and not _SMALL <= abs(value) < _LARGE:
        return f"{value:.{decimals}g}"
    return f"{value + 0.0:.{decimals}f}"  # not -0


def bound(number: float) -> str:
    """Returns a limit with all its digits: of a whole number without a point."""
    whole = isinstance(number, int) or (number.is_integer() and abs(number) < 2**63)
    return str(int(number)) if whole else repr(number)


def size(count: int) -> str:
    """Returns a number of bytes: in MB, in kB below 1 MB, and in bytes below 1 kB."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    if count < 999_950:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:,.1f} MB"


# Below so many records (of each label, for an area) an interval says little more than that.
FEW = 10
# In place of an interval that would look like knowledge.
TOO_FEW = "too few"
ALIKE = "unknown: all alike"


def interval(
    low: float,
    high: float,
    *,
    few: bool = False,
    alike: bool = False,
    few_carry: bool = False,
    units: str = "records",
) -> str:
    """Returns both ends of an interval, or why there is none: there are too `few` of the `units`,
    such as `records: 4`, or they are all `alike`. It says so if `few_carry` the figure."""
    if alike:
        return ALIKE
    if few:
        return f"{TOO_FEW} {units}"
    ends = f"[{figure(low)}, {figure(high)}]"
    return f"{ends}, few {units.partition(':')[0]} carry it" if few_carry else ends


def describe_carriers(units: str) -> str:
    """Returns what a reader must know of an interval if few of the `units` carry its figure."""
    return f"few {units.partition(':')[0]} carry this error: the interval may be too narrow"
