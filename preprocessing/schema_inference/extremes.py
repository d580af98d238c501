"""Extremes, mean and deviation of the values of a column, as one type."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclasses.dataclass
class NumberStats:
    """What the values are as one type: extremes of the finite ones, how many these are, sums of
    their distances from the first, `origin`, and of the squares, and the values it refuses."""

    least: float | int | None = None
    greatest: float | int | None = None
    finite: int = 0
    origin: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    not_finite: int = 0
    nan: int = 0
    refused: int = 0
    refused_values: set[Any] = dataclasses.field(default_factory=set)

    def see(self, made: pa.Array, counts: np.ndarray) -> None:
        """Takes in different values, each of which occurs `counts` times."""
        if pa.types.is_floating(made.type):
            finite = pc.is_finite(made)
            self.not_finite += int(counts[~finite.to_numpy(zero_copy_only=False)].sum())
            self.nan += int(counts[pc.is_nan(made).to_numpy(zero_copy_only=False)].sum())
            made, counts = made.filter(finite), counts[finite.to_numpy(zero_copy_only=False)]
        if len(made):
            values = made.to_numpy(zero_copy_only=False).astype(float)
            if not self.finite:
                self.origin = float(values[0])
            apart = values - self.origin
            self.finite += int(counts.sum())
            self.total += float(apart @ counts)
            self.squares += float(np.square(apart) @ counts)
            found = pc.min_max(made).as_py()
            self.least = found["min"] if self.least is None else min(self.least, found["min"])
            if self.greatest is None or found["max"] > self.greatest:
                self.greatest = found["max"]

    @property
    def mean(self) -> float:
        """The mean of the finite ones, of which there are some."""
        return self.origin + self.total / self.finite

    @property
    def deviation(self) -> float:
        """Their standard deviation."""
        mean = self.total / self.finite
        return math.sqrt(max(0.0, self.squares / self.finite - mean**2))
