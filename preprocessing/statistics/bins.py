"""Histograms: equally wide bins for all splits of a column, and which share of it each holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.records import manifest

_BINS = 40
# Whole numbers beyond this have no halves between them, as floats.
_HALVES = 2.0**52


def find_shared_edges(everyone: Sequence[manifest.ColumnStatistics]) -> np.ndarray:
    """Returns edges of bins that hold all but the outermost percents of everyone's numbers.

    Each bin of whole numbers holds equally many of them; the last one may reach beyond the numbers.
    """
    low = min(other.quantiles[1] for other in everyone if other.quantiles)
    high = max(other.quantiles[99] for other in everyone if other.quantiles)
    whole = all(isinstance(other.min, int) for other in everyone)
    if whole and max(abs(low), abs(high)) < _HALVES:
        width = _choose_whole_width(int(high) - int(low) + 1)
        return np.arange(low - 0.5, high + width, width)
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)


def _choose_whole_width(numbers: int) -> int:
    """Returns how many whole numbers a bin holds: of at least half as many bins as there may be,
    those of which the last one is the fullest."""
    least = -(-numbers // _BINS)
    widths = range(least, min(2 * least, least + _BINS))
    return min(widths, key=lambda width: -numbers % width / width)


def are_whole(edges: np.ndarray) -> bool:
    """Tells if bins are those of whole numbers, from a half to a half."""
    return bool(edges[0] % 1 == 0.5 and (edges[1] - edges[0]) % 1 == 0)


def find_edges(found: manifest.ColumnStatistics) -> np.ndarray:
    """Returns the edges of a column's histogram, those of its percentiles if it has none."""
    if found.histogram is None:
        return find_shared_edges([found])
    histogram = found.histogram
    return np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)


def compute_shares(found: manifest.ColumnStatistics, edges: np.ndarray) -> np.ndarray:
    """Returns which share of the finite values lies in each bin: as counted, if they were counted
    by these bins, else by their percentiles."""
    if found.histogram is not None and np.array_equal(find_edges(found), edges):
        finite = found.count - found.not_finite
        return np.array(found.histogram.counts) / max(1, finite)
    return estimate_shares(found.quantiles or (), edges)


def estimate_shares(quantiles: Sequence[float], edges: np.ndarray) -> np.ndarray:
    """Returns which share of the values lies from each edge up to the next, by their percentiles.

    Each percent is taken as spread evenly between its two quantiles; equal ones are a single spot,
    and so is every one where bins are those of whole numbers.
    """
    shares = np.zeros(len(edges) - 1)
    starts, ends = np.array(quantiles[:-1]), np.array(quantiles[1:])
    if are_whole(edges):
        starts = ends
    spot = starts == ends
    inside = spot & (starts >= edges[0]) & (starts <= edges[-1])
    bins = np.searchsorted(edges, starts[inside], side="right") - 1
    np.add.at(shares, bins.clip(0, len(shares) - 1), 0.01)
    for start, end in zip(starts[~spot], ends[~spot], strict=True):
        below = np.clip((edges - start) / (end - start), 0, 1)
        shares += np.diff(below) * 0.01
    return shares
