"""How much two sets of records may differ before `make drift` calls it drift."""

from __future__ import annotations

from typing import Annotated

import pydantic

from pipeline.sections import Section

Share = Annotated[float, pydantic.Field(ge=0.0, le=1.0)]


class Limits(Section):
    """Limits of one column in place of the common ones."""

    distance: Share | None = None
    """Largest distance. Not set: `drift.categories` or `drift.numbers`, as the column is."""
    lengths: Share | None = None
    """Largest distance of the lengths of lists. Not set: `drift.lengths`."""
    missing: Share | None = None
    """Largest change of the share of missing values, and of those not finite. Not set:
    `drift.missing`."""


class Drift(Section):
    """How much two record sets may differ before `make drift` reports drift.

    Limits go from 0 (equal) to 1 (nothing in common). A difference that chance explains (p = 0.001
    for sets of this size) is never drift.
    """

    categories: Share = 0.1
    """Largest Jensen-Shannon distance (base 2) of columns of categories."""
    numbers: Share = 0.1
    """Largest Kolmogorov-Smirnov statistic of columns of numbers."""
    lengths: Share = 0.1
    """Largest Kolmogorov-Smirnov statistic of the number of items a row, of columns of lists."""
    missing: Share = 0.05
    """Largest change of the share of missing values, and of the share of values that are NaN or
    infinite."""
    columns: dict[str, Limits] = pydantic.Field(default={})
    """Limits of single columns, by name of the column."""
    ignore: tuple[str, ...] = ()
    """Columns that are not compared, nor are those of `data.key` without limits of their own."""
