"""Steps of numbers, on batches of any shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pydantic

from pipeline.sections import Above0, Finite
from pipeline.steps import percentiles, whole
from pipeline.steps.base import NUMBERS, Follows, Kind, Statistic, Step, Values

if TYPE_CHECKING:
    import tensorflow as tf


class Missing(Step):
    """Fills in missing values."""

    takes = ("number", "integer", "text")
    lists = None
    takes_missing = True
    fills_gaps = True
    instead = "write fill: <number>"
    fill: float | int | str = "mean"
    """Value to fill in, of the type of the column; `mean` is the mean of the train split."""
    indicator: bool = False
    """Adds a feature `<name>_missing`, which is 1 where the value is missing and 0 elsewhere."""
    stand_in: float | int | str | None = None
    """Filled in by the pipeline: what stands for a missing value in the records. Do not set it."""

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
        if values.kind == "integer" and not isinstance(fill, int):
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

    def indicate(self, x: tf.Tensor) -> tf.Tensor:
        """1 where x is missing, else 0."""
        import tensorflow as tf

        return tf.cast(self._find_missing(x), tf.float32)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """`fill` where x is missing, else x."""
        import tensorflow as tf

        return tf.where(~self._find_missing(x), x, self.fill)

    def _find_missing(self, x: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        found = tf.zeros_like(x, tf.bool) if x.dtype != tf.float32 else tf.math.is_nan(x)
        if self.stand_in is None or self.stand_in != self.stand_in:  # NaN, which is found already
            return found
        return found | tf.equal(x, self.stand_in)

    @property
    def together(self) -> bool:
        """Where it is known what stands for a missing value."""
        return self.stand_in is not None

    @classmethod
    def apply_all(cls, steps: Sequence[Missing], x: tf.Tensor) -> tf.Tensor:
        """The same, column by column."""
        import tensorflow as tf

        return tf.where(~cls._find_all_missing(steps, x), x, [step.fill for step in steps])

    @classmethod
    def indicate_all(cls, steps: Sequence[Missing], x: tf.Tensor) -> tf.Tensor:
        """The same, column by column."""
        import tensorflow as tf

        return tf.cast(cls._find_all_missing(steps, x), tf.float32)

    @classmethod
    def _find_all_missing(cls, steps: Sequence[Missing], x: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        # NaN is equal to nothing.
        found = tf.equal(x, [step.stand_in for step in steps])
        return found | tf.math.is_nan(x) if x.dtype == tf.float32 else found


class ZScore(Step):
    """Shifts and scales values to mean 0 and standard deviation 1."""

    takes = NUMBERS
    gives = "number"
    instead = "set mean and deviation"
    mean: Finite | None = None
    """The mean to subtract. Not set: that of the train split."""
    deviation: Above0 | None = None
    """The standard deviation to divide by. Not set: that of the train split."""

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
            deviation = 0.0 if values.constant else math.sqrt(_require(values.variance))
        return self.model_copy(update={"mean": mean, "deviation": deviation or 1.0})

    def statistics_after(self) -> Follows:
        """All of them."""
        return "linear"

    def value(self, x: float) -> float:
        """The same for one number."""
        return (x - _require(self.mean)) / _require(self.deviation)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """(x - mean) / deviation."""
        return whole.subtract(x, _require(self.mean)) / _require(self.deviation)

    @property
    def together(self) -> bool:
        """Always."""
        return True

    @classmethod
    def apply_all(cls, steps: Sequence[ZScore], x: tf.Tensor) -> tf.Tensor:
        """The same, column by column."""
        # As lists, since a Keras model has them in its config.
        means = [_require(step.mean) for step in steps]
        return whole.subtract(x, means) / [_require(step.deviation) for step in steps]


class MinMax(Step):
    """Shifts and scales values so that the smallest becomes 0 and the largest 1."""

    takes = NUMBERS
    gives = "number"
    instead = "set min and max"
    min: Finite | None = None
    """The value that becomes 0, below `max`. Not set: the smallest of the train split."""
    max: Finite | None = None
    """The value that becomes 1. Not set: the largest of the train split."""

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
        apart = high > low and not (self.max is None and values.constant)
        return self.model_copy(update={"min": low, "max": high if apart else low + 1.0})

    def statistics_after(self) -> Follows:
        """All of them."""
        return "linear"

    def value(self, x: float) -> float:
        """The same for one number."""
        return (x - _require(self.min)) / (_require(self.max) - _require(self.min))

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """(x - min) / (max - min)."""
        return whole.subtract(x, _require(self.min)) / (_require(self.max) - _require(self.min))

    @property
    def together(self) -> bool:
        """Always."""
        return True

    @classmethod
    def apply_all(cls, steps: Sequence[MinMax], x: tf.Tensor) -> tf.Tensor:
        """The same, column by column."""
        low = [_require(step.min) for step in steps]
        return whole.subtract(x, low) / [_require(step.max) - _require(step.min) for step in steps]


class Log1p(Step):
    """Takes the natural logarithm of 1 + x."""

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
    """Limits values to a range."""

    takes = NUMBERS
    gives = "number"
    min: float | None = None
    """Lower limit, not above `max`. Not set: no limit. Give `min`, `max` or both."""
    max: float | None = None
    """Upper limit. Not set: no limit."""

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


class Piecewise(Step):
    """Encodes a number as one number per interval: 0 below the interval, 1 above it, and rising
    evenly within it.

    This is the piecewise-linear encoding of Gorishniy, Rubachev and Babenko, On embeddings for
    numerical features in tabular deep learning, 2022. Values beyond the outer edges count as those
    edges.
    """

    takes = NUMBERS
    gives = "number"
    instead = "set edges"
    count: Annotated[int, pydantic.Field(ge=1, le=100)] | None = None
    """Number of intervals, with edges at the quantiles of the train split. Give `count` or
    `edges`."""
    edges: tuple[Finite, ...] | None = None
    """Edges of the intervals: two or more numbers in ascending order."""

    @pydantic.model_validator(mode="after")
    def _check_edges(self) -> Piecewise:
        if self.edges is None and self.count is None:
            raise ValueError("needs count or edges")
        if self.edges is not None and (
            len(self.edges) < 2 or list(self.edges) != sorted(set(self.edges))
        ):
            raise ValueError(f"edges must be two numbers or more that rise, got {self.edges}")
        return self

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """Percentiles, some of which are the edges."""
        return ("percentiles",) if self.edges is None else ()

    def filled(self, values: Values) -> Piecewise:
        """Has edges. Where values are so frequent that quantiles coincide there are fewer."""
        if self.edges is not None or self.count is None or values.percentiles is None:
            return self
        found = {
            percentiles.quantile_at(values.percentiles, n / self.count)
            for n in range(self.count + 1)
        }
        edges = sorted({_round_edge(edge, values.kind) for edge in found})
        edges = edges if len(edges) > 1 else [edges[0], edges[0] + max(1.0, abs(edges[0]))]
        return self.model_copy(update={"edges": tuple(edges)})

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for edges that are the same as float32, if values are that."""
        for low, high in itertools.pairwise(self.edges or ()) if kind == "number" else ():
            if np.float32(low) == np.float32(high):
                raise ValueError(
                    f"edges {low!r} and {high!r} are the same as float32, which the values are; "
                    "write edges further apart, or use an int64 column with no step before"
                )

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A number for each interval; asked also before the edges are known."""
        intervals = self.count if self.edges is None else len(self.edges) - 1
        return (*shape, intervals or 0)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """min(max((x - lower) / (upper - lower), 0), 1) of each interval."""
        import tensorflow as tf

        assert self.edges is not None
        edges = np.array(self.edges, np.float64 if x.dtype == tf.int64 else np.float32)
        share = whole.subtract(tf.expand_dims(x, -1), edges[:-1].tolist()) / np.diff(edges).tolist()
        return tf.minimum(tf.maximum(share, 0.0), 1.0)


class Cycle(Step):
    """Encodes a cyclic value, such as the day of the year, as sine and cosine, so that the end of
    a period is close to its start."""

    takes = NUMBERS
    gives = "number"
    period: Above0
    """Length of a period, in units of the value."""

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Sine and cosine."""
        return (*shape, 2)

    def value(self, x: float) -> float:
        """The sine of one number."""
        return math.sin(x * 2 * math.pi / self.period)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """sin(2 pi x / period) and cos(2 pi x / period)."""
        import tensorflow as tf

        x = whole.modulo(x, self.period) if x.dtype == tf.int64 else x
        angle = _float(x) * (2 * math.pi / self.period)
        return tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)


def check_alike(values: tuple[float | int | str, ...], kind: Kind) -> None:
    """Raises `ValueError` for a setting that is not of the kind of the values."""
    for value in values:
        fits = isinstance(value, str) == (kind == "text")
        fits = fits and (isinstance(value, str) or math.isfinite(value))
        if not fits or (kind == "integer" and value != int(value)):
            raise ValueError(f"{value!r} is not a valid {kind}, and that is what it gets")


def _round_edge(edge: float, kind: Kind) -> float:
    """Returns an edge as values can be told apart by it: float32, or a large whole number."""
    large = kind == "integer" and abs(edge) > whole.OF_FLOAT32
    return float(round(edge) if large else np.float32(edge))


def _float(x: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.cast(x, tf.float32)


def _require(setting: float | None) -> float:
    assert setting is not None, "the plan has filled it in"
    return float(setting)
