"""What models are fed: features made of columns in steps, and the label.

A feature is what its steps make of its columns. Each step takes some kinds of values and gives one,
so that what cannot work is refused when the config is read; what needs statistics of the records is
filled in by `pipeline.feature_plan`. The steps are explained, with formulas, in docs/features.md.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from pipeline import errors
from pipeline.sections import Fraction, NotNegative, Positive, Section

# Kinds of values between steps. `ids` are numbers of categories, from 0 to a number that is known;
# `bag` any number of them a row. `encoded` is the content of an image file.
Kind = Literal["number", "integer", "text", "ids", "bag", "image", "encoded"]
NUMBERS: tuple[Kind, ...] = ("number", "integer")
CATEGORIES: tuple[Kind, ...] = ("integer", "text", "ids")


class Step(Section):
    """One transform. Left out settings are `None`, and come from the statistics."""

    takes: ClassVar[tuple[Kind, ...]]
    gives: ClassVar[Kind | None] = None  # None: what it takes


class Missing(Step):
    """Fills in what is missing; `indicator` adds a feature that is 1 where it was.

    `stand_in` is what stands for a missing value of the column, and is not to be given.
    """

    step: Literal["missing"]
    takes = ("number", "integer", "text")
    fill: float | int | str = "mean"
    indicator: bool = False
    stand_in: float | int | str | None = None


class ZScore(Step):
    """Moves and stretches to mean 0 and deviation 1."""

    step: Literal["z_score"]
    takes = NUMBERS
    gives = "number"
    mean: float | None = None
    deviation: Annotated[float, pydantic.Field(gt=0)] | None = None


class MinMax(Step):
    """Moves and stretches so that the least value becomes 0 and the greatest 1."""

    step: Literal["min_max"]
    takes = NUMBERS
    gives = "number"
    min: float | None = None
    max: float | None = None

    @pydantic.model_validator(mode="after")
    def _limits(self) -> MinMax:
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min {self.min:g} is not below max {self.max:g}")
        return self


class Log1p(Step):
    """The natural logarithm of one more."""

    step: Literal["log1p"]
    takes = NUMBERS
    gives = "number"


class Clip(Step):
    """Puts what is beyond a limit at the limit."""

    step: Literal["clip"]
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


class Buckets(Step):
    """The number of the interval a value is in: of `count` with as many values each, or of those
    between `boundaries`."""

    step: Literal["buckets"]
    takes = NUMBERS
    gives = "ids"
    count: Annotated[int, pydantic.Field(ge=2, le=100)] | None = None
    boundaries: tuple[float, ...] | None = None

    @pydantic.model_validator(mode="after")
    def _one_of_both(self) -> Buckets:
        if self.boundaries is None and self.count is None:
            raise ValueError("needs count or boundaries")
        ordered = self.boundaries is None or (
            bool(self.boundaries) and list(self.boundaries) == sorted(set(self.boundaries))
        )
        if not ordered:
            raise ValueError(f"boundaries must rise, got {list(self.boundaries or ())}")
        return self


class Vocabulary(Step):
    """The place of a value among those of the vocabulary; others share `oov` ids after them."""

    step: Literal["vocabulary"]
    takes = ("integer", "text")
    gives = "ids"
    oov: Positive = 1
    values: tuple[int | str, ...] | None = None


class Hash(Step):
    """One of `buckets` ids, by a hash of the value."""

    step: Literal["hash"]
    takes = ("integer", "text")
    gives = "ids"
    buckets: Positive


class Identity(Step):
    """Whole numbers from 0 that are ids already; all others get the last of `ids`."""

    step: Literal["identity"]
    takes = ("integer",)
    gives = "ids"
    ids: Annotated[int, pydantic.Field(ge=2)]


class Cross(Step):
    """One of `buckets` ids, by a hash of several values together."""

    step: Literal["cross"]
    takes = CATEGORIES
    gives = "ids"
    buckets: Positive


class Date(Step):
    """A part of a date such as 2013-01-31 or a time such as 2013-01-31T23:59:00Z; -1 if it is
    neither. Weekdays count from Monday, 0."""

    step: Literal["date"]
    takes = ("text",)
    gives = "integer"
    part: Literal["year", "month", "day", "hour", "minute", "weekday", "day_of_year"]


class Clock(Step):
    """A part of a time written as a number: 517 is 5:17."""

    step: Literal["clock"]
    takes = ("integer",)
    gives = "integer"
    part: Literal["hour", "minute", "minute_of_day"] = "minute_of_day"


class Ngrams(Step):
    """Ids of all runs of 1 to `n` words or characters of a text in lower case, by hash."""

    step: Literal["ngrams"]
    takes = ("text",)
    gives = "bag"
    n: Annotated[int, pydantic.Field(ge=1, le=8)] = 1
    unit: Literal["word", "character"] = "word"
    buckets: Positive


class Decode(Step):
    """The pixels of a PNG, JPEG, GIF or BMP file, shrunk or grown to one size."""

    step: Literal["decode"]
    takes = ("encoded",)
    gives = "image"
    height: Positive
    width: Positive
    channels: Literal[1, 3] = 3


class Resize(Step):
    """Another size, by bilinear interpolation."""

    step: Literal["resize"]
    takes = ("image",)
    height: Positive
    width: Positive


class Scale(Step):
    """Pixels of 0 to 255 to a range, `min` to `max`."""

    step: Literal["scale"]
    takes = ("image",)
    min: float = 0.0
    max: float = 1.0


class Augment(Step):
    """In training only: mirrored half of the time, moved by up to `shift` pixels, brightness and
    contrast changed by up to a share."""

    step: Literal["augment"]
    takes = ("image",)
    flip: bool = False
    shift: NotNegative = 0
    brightness: Fraction = 0.0
    contrast: Fraction = 0.0


def _name(given: Any) -> Any:
    return given.get("step") if isinstance(given, dict) else getattr(given, "step", None)


AnyStep = Annotated[
    Annotated[Missing, pydantic.Tag("missing")]
    | Annotated[ZScore, pydantic.Tag("z_score")]
    | Annotated[MinMax, pydantic.Tag("min_max")]
    | Annotated[Log1p, pydantic.Tag("log1p")]
    | Annotated[Clip, pydantic.Tag("clip")]
    | Annotated[Buckets, pydantic.Tag("buckets")]
    | Annotated[Vocabulary, pydantic.Tag("vocabulary")]
    | Annotated[Hash, pydantic.Tag("hash")]
    | Annotated[Identity, pydantic.Tag("identity")]
    | Annotated[Cross, pydantic.Tag("cross")]
    | Annotated[Date, pydantic.Tag("date")]
    | Annotated[Clock, pydantic.Tag("clock")]
    | Annotated[Ngrams, pydantic.Tag("ngrams")]
    | Annotated[Decode, pydantic.Tag("decode")]
    | Annotated[Resize, pydantic.Tag("resize")]
    | Annotated[Scale, pydantic.Tag("scale")]
    | Annotated[Augment, pydantic.Tag("augment")],
    pydantic.Discriminator(_name),
]
_MEMBERS = typing.get_args(typing.get_args(AnyStep)[0])
STEPS: Mapping[str, type[Step]] = {
    tag.tag: step for step, tag in (typing.get_args(member) for member in _MEMBERS)
}


class Feature(Section):
    """One feature. `of` names its columns (without it: the one of its own name) or, where there is
    no such column, other features. Several are for `cross`.

    How ids enter a network is up to `embedding`: as vectors of that width, as `one_hot`, or, left
    to itself (`auto`), one-hot up to eight ids and above that with twice the fourth root of their
    number. `part` is of `dnn_linear_combined`: its linear part gets ids and its network all but
    crosses, unless this says otherwise.
    """

    of: tuple[str, ...] = ()
    steps: tuple[AnyStep, ...] = ()
    embedding: Positive | Literal["auto", "one_hot"] = "auto"
    part: Literal["wide", "deep", "both"] | None = None

    @pydantic.field_validator("of", mode="before")
    @classmethod
    def _one_name(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @pydantic.field_validator("steps", mode="before")
    @classmethod
    def _written_short(cls, given: Any) -> Any:
        """Takes `log1p` and `{clip: {min: 0}}` as well as `{step: clip, min: 0}`."""
        steps = [given] if isinstance(given, str | dict) else given
        return (
            tuple(_spelt_out(step) for step in steps) if isinstance(steps, list | tuple) else given
        )

    def inputs(self, name: str) -> tuple[str, ...]:
        """Returns the names of columns or features that a feature called `name` is made of."""
        return self.of or (name,)


class Label(Section):
    """What is to be predicted, made of the label column: its value; or, with `threshold`, 1 if it
    is greater than that and 0 if not; or, with `vocabulary`, its place in the vocabulary.

    `weight` is a column by which examples count more or less; `balanced` makes all classes weigh
    the same, however frequent they are in train.
    """

    threshold: float | None = None
    vocabulary: bool = False
    weight: str | None = None
    balanced: bool = False

    @pydantic.model_validator(mode="after")
    def _do_not_contradict(self) -> Label:
        if self.threshold is not None and self.vocabulary:
            raise ValueError("threshold and vocabulary exclude each other")
        if self.weight is not None and self.balanced:
            raise ValueError("weight and balanced exclude each other")
        return self


def _spelt_out(step: Any) -> Any:
    settings: Any = {}
    if isinstance(step, str):
        name = step
    elif isinstance(step, dict) and "step" not in step and len(step) == 1:
        [(name, settings)] = step.items()
    else:
        return step
    if name not in STEPS:
        raise ValueError(
            f"no step is called {name!r}{errors.nearest(str(name), STEPS)}; known: "
            f"{', '.join(STEPS)}"
        )
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        raise ValueError(f"{name}: its settings must be a mapping, got {settings!r}")
    return {"step": name, **settings}
