"""A few numbers so far from all others that scaling by the deviation makes the others all alike."""

from __future__ import annotations

import dataclasses

import numpy as np

from preprocessing.schema_inference import traits
from preprocessing.schema_inference.profile import ColumnProfile

# Deviations from the mean beyond which numbers count as if they were there.
FAR = 8.0
# At most so many rows, of at least so many each, are outliers, and without them the deviation is
# smaller by this factor.
_FEW, _OF, _SMALLER = 10, 100, 10
# Of a column that is not counted by value, a number that makes up this share of the variance.
_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class Outliers:
    """How many rows have one, if that is known, the farthest, and `mean` and `deviation` of the
    other rows."""

    rows: int | None
    farthest: float
    mean: float
    deviation: float


def find(found: ColumnProfile) -> Outliers | None:
    """Returns the outliers of a column of numbers, if it has some."""
    if found.kind not in ("int64", "float32") or found.lengths or not found.about.finite:
        return None
    about = found.about
    assert about.least is not None and about.greatest is not None
    apart = {abs(float(x) - about.mean): float(x) for x in (about.least, about.greatest)}
    far, farthest = max(apart.items())
    # Cheap to ask, and true of hardly any column.
    if far <= FAR * about.deviation:
        return None
    if found.different is None and far**2 < _SHARE * about.finite * about.deviation**2:
        return None
    values, counts = traits.count_numbers(found)
    few = max(1, min(_FEW, int(counts.sum()) // _OF))
    order = np.argsort(np.abs(values - np.median(np.repeat(values, counts))))
    values, counts = values[order], counts[order]
    others = np.cumsum(counts[::-1])[::-1] > few
    if not others.any():
        return None
    mean = float(np.average(values[others], weights=counts[others]))
    deviation = float(np.average((values[others] - mean) ** 2, weights=counts[others])) ** 0.5
    if not deviation or about.deviation < _SMALLER * deviation:
        return None
    rows = int(counts[np.abs(values - mean) > FAR * deviation].sum())
    return Outliers(None if found.different is None else rows, farthest, mean, deviation)


def write_remark(name: str, found: ColumnProfile, *, label: bool) -> list[str]:
    """Returns which column has such numbers, and what to do."""
    if (odd := find(found)) is None:
        return []
    often = f"{odd.rows:,} of {found.values:,} values" if odd.rows else "a few values"
    then = (
        "Correct these rows, or remove them"
        if label
        else ("The config clips them; correct them, or leave them empty")
    )
    return [
        f"{name!r} has {often}, such as {odd.farthest:g}, very far from all others, which have "
        f"mean {odd.mean:.3g} and deviation {odd.deviation:.3g}. {then}"
    ]
