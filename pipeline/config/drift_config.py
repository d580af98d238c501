"""How much two sets of records may differ before `make drift` calls it drift."""

from __future__ import annotations

from typing import Annotated

import pydantic

from pipeline.config.sections import Section

Share = Annotated[float, pydantic.Field(ge=0.0, le=1.0)]


class Limits(Section):
    """Limits of one column, where they are not the common ones."""

    distance: Share | None = None
    missing: Share | None = None


class Drift(Section):
    """Limits from 0 (the same) to 1 (nothing in common), and columns that have their own.

    `categories` is of the Jensen-Shannon distance (base 2), `numbers` of the Kolmogorov-Smirnov
    statistic, `missing` of the change of the share of missing values. What sets of their size
    differ by one time in a thousand, although nothing has changed, never counts. Columns in
    `ignore` are not compared.
    """

    categories: Share = 0.1
    numbers: Share = 0.1
    missing: Share = 0.05
    columns: dict[str, Limits] = pydantic.Field(default={})
    ignore: tuple[str, ...] = ()
