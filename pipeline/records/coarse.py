"""Features of which float32 makes coarse steps, because their values are far from zero for how
little they vary: days as numbers, seconds since 1970, cents of large sums."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.records.feature_plan import FeaturePlan, Planned

# Numbers in steps of more than this share of their deviation are coarse: rounding them errs by 3 %
# of it.
COARSE = 0.1


def warnings(plan: FeaturePlan) -> Iterator[str]:
    """Yields a line for each such feature."""
    for planned in plan.features:
        if (line := _find_warning(planned)) is not None:
            yield line


def step_of(largest: float) -> float:
    """Returns how far numbers up to `largest` are apart in float32."""
    return float(np.spacing(np.float32(largest)))


def _find_warning(planned: Planned) -> str | None:
    last = len(planned.steps)
    for number, values in enumerate(planned.points):
        # Whole numbers become float32 in steps that give numbers, or when a model gets them.
        as_float32 = values.kind == "number" or (values.kind == "integer" and number == last)
        if not as_float32 or not values.percentiles or not values.variance:
            continue
        largest, spread = max(map(abs, values.percentiles)), math.sqrt(values.variance)
        step = step_of(largest)
        if step > COARSE * spread:
            where = f"behind {planned.steps[number - 1].step}" if number else "as they are"
            return (
                f"features.{planned.name}: values {where} deviate by {spread:.3g}, but numbers up "
                f"to {largest:.3g} are {step:g} apart in float32, which they are there. Let "
                "z_score, min_max, piecewise or buckets be the first step of an int64 column, or "
                "subtract what all values have in common from the raw data"
            )
    return None
