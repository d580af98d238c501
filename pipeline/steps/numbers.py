"""Steps of numbers, on batches of any shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import pydantic

from pipeline.steps.base import NUMBERS, Follows, Kind, Statistic, Step, Values

if TYPE_CHECKING:
    import tensorflow as tf


class Missing(Step):
    """Fills in what is missing; `indicator` adds a feature that is 1 where it was.

    `stand_in` is what stands for a missing value of the column, and is not to be given.
    """

    takes = ("number", "integer", "text")
    takes_missing = True
    fills_gaps = True
    instead = "write fill: <number>"
    fill: float | int | str = "mean"
    indicator: bool = False
    stand_in: float | int | str | None = None

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for a `fill` that is not like the values."""
        if self.fill == "mean":
            if kind == "text":
                raise ValueError("texts have no mean; write fill: <text>")
        else:
            check_alike((self.fill,), kind)

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """The mean, where that is what to fill in."""
        return ("mean",) if self.fill == "mean" and kind != "text" else ()

    def filled(self, values: Values) -> Missing:
        """Knows what to fill in, and what stands for a missing value."""
        fill = self.fill
        if fill == "mean" and values.mean is not None:
            fill = values.mean
        if values.kind == "integer":
            fill = round(float(fill))
        return self.model_copy(update={"fill": fill, "stand_in": values.stand_in})

    def statistics_after(self) -> Follows:
        """Those of the values that are there."""
        return "unchanged"

    @property
    def filling(self) -> float | int | str | None:
        """`fill`."""
        return self.fill

    @property
    def has_indicator(self) -> bool:
        """Tells if one is wanted."""
        return self.indicator

    def indicated(self, x: tf.Tensor) -> tf.Tensor:
        """1 where x is missing, else 0."""
        import tensorflow as tf

        return tf.cast(self._where(x), tf.float32)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """`fill` where x is missing, else x."""
        import tensorflow as tf

        return tf.where(~self._where(x), x, self.fill)

    def _where(self, x: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        found = tf.zeros_like(x, tf.bool) if x.dtype != tf.float32 else tf.math.is_nan(x)
        if self.stand_in is None or self.stand_in != self.stand_in:  # NaN, which is found already
            return found
        return found | tf.equal(x, self.stand_in)


class ZScore(Step):
    """Moves and stretches to mean 0 and deviation 1."""

    takes = NUMBERS
    gives = "number"
    instead = "set mean and deviation"
    mean: float | None = None
    deviation: Annotated[float, pydantic.Field(gt=0)] | None = None

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """What is not given."""
        mean: tuple[Statistic, ...] = ("mean",) if self.mean is None else ()
        return (*mean, "variance") if self.deviation is None else mean

    def filled(self, values: Values) -> ZScore:
        """Has mean and deviation."""
        mean = values.mean if self.mean is None else self.mean
        deviation = self.deviation
        if deviation is None:
            # A column that is always the same becomes 0.
            deviation = 0.0 if values.constant else math.sqrt(_known(values.variance))
        return self.model_copy(update={"mean": mean, "deviation": deviation or 1.0})

    def statistics_after(self) -> Follows:
        """All of them."""
        return "linear"

    def value(self, x: float) -> float:
        """The same for one number."""
        return (x - _known(self.mean)) / _known(self.deviation)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """(x - mean) / deviation."""
        return (_float(x) - _known(self.mean)) / _known(self.deviation)


class MinMax(Step):
    """Moves and stretches so that the least value becomes 0 and the greatest 1."""

    takes = NUMBERS
    gives = "number"
    instead = "set min and max"
    min: float | None = None
    max: float | None = None

    @pydantic.model_validator(mode="after")
    def _limits(self) -> MinMax:
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min {self.min:g} is not below max {self.max:g}")
        return self

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """Percentiles, the first and last of which are the extremes."""
        return ("percentiles",) if self.min is None or self.max is None else ()

    def filled(self, values: Values) -> MinMax:
        """Has both limits."""
        ends = values.percentiles or (math.nan,)
        low = ends[0] if self.min is None else self.min
        high = ends[-1] if self.max is None else self.max
        return self.model_copy(update={"min": low, "max": high if high > low else low + 1.0})

    def statistics_after(self) -> Follows:
        """All of them."""
        return "linear"

    def value(self, x: float) -> float:
        """The same for one number."""
        return (x - _known(self.min)) / (_known(self.max) - _known(self.min))

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """(x - min) / (max - min)."""
        return (_float(x) - _known(self.min)) / (_known(self.max) - _known(self.min))


class Log1p(Step):
    """The natural logarithm of one more."""

    takes = NUMBERS
    gives = "number"

    def statistics_after(self) -> Follows:
        """Those of the logarithms."""
        return "monotonic"

    def value(self, x: float) -> float:
        """The same for one number."""
        return math.log1p(x)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """ln(1 + x)."""
        import tensorflow as tf

        return tf.math.log1p(_float(x))


class Clip(Step):
    """Puts what is beyond a limit at the limit."""

    takes = NUMBERS
    gives = "number"
    min: float | None = None
    max: float | None = None

    @pydantic.model_validator(mode="after")
    def _limits(self) -> Clip:
        if self.min is None and self.max is None:
            raise ValueError("needs min, max, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self

    def statistics_after(self) -> Follows:
        """Those of the values within the limits."""
        return "monotonic"

    def value(self, x: float) -> float:
        """The same for one number."""
        low = -math.inf if self.min is None else self.min
        return min(max(x, low), math.inf if self.max is None else self.max)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """min(max(x, min), max)."""
        import tensorflow as tf

        x = _float(x)
        x = x if self.min is None else tf.maximum(x, self.min)
        return x if self.max is None else tf.minimum(x, self.max)


def check_alike(values: tuple[float | int | str, ...], kind: Kind) -> None:
    """Raises `ValueError` for a setting that is not of the kind of the values."""
    for value in values:
        fits = isinstance(value, str) == (kind == "text")
        if not fits or (kind == "integer" and value != int(value)):
            raise ValueError(f"{value!r} is not a valid {kind}, and that is what it gets")


def _float(x: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.cast(x, tf.float32)


def _known(setting: float | None) -> float:
    assert setting is not None, "the plan has filled it in"
    return float(setting)
