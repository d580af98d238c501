"""What percentiles of a column tell: at equal shares of its values, from the least on."""

from __future__ import annotations

import itertools
import math

# Distance from a line, relative to the range, that is rounding.
_LINE = 1e-6
# Relative distance of percentiles that are one value, rounded.
_SAME = 1e-12
# The least normal number of float32: TensorFlow takes smaller ones, and so differences, for 0.
_LEAST = 2.0**-126


def moments(percentiles: tuple[float, ...]) -> tuple[float, float]:
    """Returns mean and variance of values whose percentiles are joined by straight lines."""
    if are_same(percentiles):
        return percentiles[0], 0.0  # of one value; rounding would make a deviation of it
    pieces = list(itertools.pairwise(percentiles))
    mean = math.fsum((a + b) / 2 for a, b in pieces) / len(pieces)
    shifted = [(a - mean, b - mean) for a, b in pieces]
    return mean, math.fsum((a * a + a * b + b * b) / 3 for a, b in shifted) / len(pieces)


def are_same(percentiles: tuple[float, ...]) -> bool:
    """Tells if all values are one, by their percentiles, as far as float32 can tell."""
    low, high = min(percentiles), max(percentiles)
    return high - low <= max(_SAME * max(abs(low), abs(high)), _LEAST)


def leave_line(
    before: tuple[float, ...], after: tuple[float, ...], slope: float
) -> tuple[float, float, tuple[float, ...]]:
    """Returns by how much values leave a line of a slope, the slope, and what is left of each."""
    rest = tuple(y - slope * x for x, y in zip(before, after, strict=True))
    return math.fsum(abs(b - a) for a, b in itertools.pairwise(rest)), slope, rest


def quantile_at(percentiles: tuple[float, ...], share: float) -> float:
    """Returns the quantile at a share from 0 to 1."""
    place = share * (len(percentiles) - 1)
    below = min(int(place), len(percentiles) - 2)
    low, high = percentiles[below], percentiles[below + 1]
    return low + (high - low) * (place - below)


def are_on_line(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
    """Tells if `after` is `before` times a number, plus another."""
    width, span = before[-1] - before[0], after[-1] - after[0]
    return all(
        abs((y - after[0]) * width - (x - before[0]) * span) <= _LINE * abs(width * span)
        for x, y in zip(before, after, strict=True)
    )
