"""What a step of a feature is: one class that holds all there is to know about one transform.

Its fields are its settings in the config. Besides, a step says

- which kinds of values it takes and gives (`takes`, `gives`, `categories`, `out_shape`), so that a
  chain that cannot work is refused when the config is read;
- which statistics of the records it needs (`needs`, `filled`);
- what is known of the statistics behind it (`statistics_after`, `value`): nothing, by default;
- its TensorFlow op (`apply`), for training, evaluation and the exported model;
- its form in a Keras model (`layer`, `masked`, `outside_keras`): the same op, by default.

TensorFlow is imported inside the methods that need it: commands read configs without it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import pydantic

from pipeline import errors
from pipeline.sections import Section
from pipeline.steps import percentiles

# Kinds of values between steps. `ids` are numbers of categories, from 0 to a number that is known;
# `bag` any number of them a row. `encoded` is the content of an image file.
Kind = Literal["number", "integer", "text", "ids", "bag", "image", "encoded"]
NUMBERS: tuple[Kind, ...] = ("number", "integer")
CATEGORIES: tuple[Kind, ...] = ("integer", "text", "ids")

# What the manifest may know of values: `vocabulary` is all of them, `percentiles` 0 to 100.
Statistic = Literal["mean", "variance", "percentiles", "vocabulary"]
STATISTICS: Mapping[Statistic, str] = {
    "mean": "the mean",
    "variance": "the variance",
    "percentiles": "percentiles",
    "vocabulary": "all values",
}
OF_NUMBERS: frozenset[Statistic] = frozenset({"mean", "variance", "percentiles"})

# What a step does to statistics, see `Step.statistics_after`.
Follows = Literal["forgotten", "unchanged", "monotonic", "linear"]

# Share of the range by which mapped percentiles may be out of order, as those of 5:99 o'clock are.
_ORDER = 0.05
# A step is nearly a line if it leaves one by at most this share of the range that it maps.
_FEW = 0.2


@dataclasses.dataclass(frozen=True)
class Values:
    """What is known of the values at one point of a feature.

    `ids` is how many categories there are, if they are of kind `ids` or `bag`; `shape` is that of
    one example, or of one item if a row is a `listed` number of them. Statistics are those of the
    values that are there: `stand_in` is what stands for a missing one, and `others` are the values
    beyond the statistics, such as what fills the gaps, or infinite ones. `forgotten_by` is the step
    that discarded the statistics.
    """

    kind: Kind
    shape: tuple[int, ...]
    ids: int | None = None
    percentiles: tuple[float, ...] | None = None
    mean: float | None = None
    variance: float | None = None
    vocabulary: tuple[int | float | str, ...] | None = None
    stand_in: int | float | str | None = None
    others: tuple[float, ...] = ()
    forgotten_by: str | None = None
    listed: bool = False

    @property
    def constant(self) -> bool:
        """Tells if all values are one, as far as is known."""
        return self.percentiles is not None and percentiles.are_same(self.percentiles)


class Step(Section):
    """One transform. Settings that are left out are `None`, and come from the statistics.

    A step of this project is called like its class, `ZScore` is `z_score`; one of your own by
    `package.module:Class`. A class with an `apply` of its own inherits none of `layer`,
    `masked`, `statistics_after`, `together` and `layers_together`: what holds for one op need not
    hold for another.
    """

    step: str = ""
    """Name of the step."""

    takes: ClassVar[tuple[Kind, ...]]
    gives: ClassVar[Kind | None] = None  # None: what it takes
    # Takes a list of several inputs, all of one shape, as the first step of a feature.
    several: ClassVar[bool] = False
    # What stands for a missing value is a value like others to it.
    takes_missing: ClassVar[bool] = False
    # Nothing is missing behind it, see `filling`.
    fills_gaps: ClassVar[bool] = False
    in_training_only: ClassVar[bool] = False
    # What it makes of one value says nothing of any other, and it does not know all values: an
    # exported model is compared on those that occur.
    scatters: ClassVar[bool] = False
    # What it does to a list: the same to each item, or one value for a row of them, ragged
    # `[batch, items]`; None: it takes none.
    lists: ClassVar[Literal["items", "whole"] | None] = "items"
    # Keras cannot save it: it is applied to what the Keras model is fed, with all steps before it.
    outside_keras: ClassVar[bool] = False
    # What to write in the config where the statistics are not known, such as "set mean".
    instead: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Raises `TypeError` for a class that lacks what every step has to say."""
        super().__pydantic_init_subclass__(**kwargs)
        own = vars(cls)
        if "apply" in own:
            for name in ("layer", "masked", "statistics_after", "together", "layers_together"):
                if name not in own:
                    setattr(cls, name, getattr(Step, name))
        kinds, takes = get_args(Kind), getattr(cls, "takes", ())
        if not takes or not {*takes, cls.gives or takes[0]} <= {*kinds}:
            raise TypeError(
                f"{cls.__name__}: a step needs takes, the kinds of values it takes, and may have "
                f"gives, the kind it returns: takes is {takes!r}, kinds are {', '.join(kinds)}"
            )
        if cls.apply is Step.apply:
            raise TypeError(f"{cls.__name__}: a step needs apply(self, x), its TensorFlow op")
        if cls.gives in ("ids", "bag") and cls.categories is Step.categories:
            raise TypeError(f"{cls.__name__}: a step that gives {cls.gives} needs categories(self)")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _add_name(cls, given: Any) -> Any:
        return {"step": cls.config_name(), **given} if isinstance(given, dict) else given

    @classmethod
    def config_name(cls) -> str:
        """Returns what the step is called in configs."""
        if cls.__module__.startswith(__name__.rpartition(".")[0] + "."):
            return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        return f"{cls.__module__}:{cls.__name__}"

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for settings that do not fit values of this kind and shape."""

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """Returns the statistics without which settings are missing, for values of a kind."""
        return ()

    @property
    def statistics_of(self) -> str | None:
        """Returns the column whose statistics it needs, if not those of the values it gets."""
        return None

    def filled(self, values: Values) -> Step:
        """Returns the step with all settings. `values` has what `needs` asks for."""
        return self

    @property
    def ids_of_each(self) -> int:
        """Returns how many ids it gives of one value. If several, `apply` returns `[*shape of x,
        ids_of_each]`, and a row has a list of them."""
        return 1

    def categories(self) -> int:
        """Returns how many ids there are, if it gives ids; asked of a step with all settings."""
        raise NotImplementedError

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of what it makes of an example of `shape`."""
        return shape

    def statistics_after(self) -> Follows:
        """Returns what is known behind the step, if its results are numbers.

        "forgotten": nothing; a later step that needs statistics is refused.
        "unchanged": what was known before. Only for steps that leave all values as they are.
        "monotonic": the order of values is kept, or turned round. Percentiles are mapped by
        `value`; mean and variance are those of the percentiles, joined by straight lines.
        "linear": the same, and mean and variance are mapped exactly.
        """
        return "forgotten"

    def value(self, x: float) -> float:
        """Returns what `apply` makes of one number; needed for "monotonic" and "linear". Of a step
        that has it, infinite values of a column are refused before training.

        Raises `ValueError` if it has no value there.
        """
        raise NotImplementedError

    @property
    def jumps(self) -> tuple[float | str, ...]:
        """Returns the values at which the result jumps, so that an exported model is compared
        there, too."""
        return ()

    @property
    def filling(self) -> float | int | str | None:
        """What it puts where a value is missing, if it fills gaps."""
        return None

    @property
    def has_indicator(self) -> bool:
        """Tells if it adds a feature, `<name>_missing`, which is what `indicate` returns."""
        return False

    def indicate(self, x: Any) -> Any:
        """Returns 1 where a value is missing, else 0: float32 of the shape of `x`."""
        raise NotImplementedError

    def apply(self, x: Any) -> Any:
        """Returns the result for a batch, `[batch, *shape]`: numbers and images as float32,
        integers and ids as int64, texts as strings."""
        raise NotImplementedError

    @property
    def together(self) -> bool:
        """Tells if `apply_all` does what `apply` does, for many columns in a few ops."""
        return False

    @classmethod
    def apply_all(cls, steps: Sequence[Any], x: Any) -> Any:
        """Returns what each of some steps makes of its column of `x`, `[batch, steps]`."""
        raise NotImplementedError

    @classmethod
    def indicate_all(cls, steps: Sequence[Any], x: Any) -> Any:
        """Returns what `indicate` returns of each, `[batch, steps]`; of steps that have it."""
        raise NotImplementedError

    def layer(self, x: Any) -> Any:
        """Returns the same for a tensor of a Keras model, out of what Keras can save."""
        return self.apply(x)

    def masked(self, x: Any, there: Any) -> Any:
        """Returns what `apply` makes of lists, for tensors of a Keras model `[batch, longest]`: the
        items, and which places hold one. Without it a step of `lists = "whole"` is applied outside.
        """
        raise NotImplementedError

    @property
    def in_keras(self) -> bool:
        """Tells if a Keras model can have it inside."""
        ragged = self.lists == "whole" and type(self).masked is Step.masked
        return not (self.outside_keras or ragged)

    @property
    def layers_together(self) -> bool:
        """Tells if `layer_all` does what `layer` does, for many columns in a few layers."""
        return self.together and type(self).layer is Step.layer

    @classmethod
    def layer_all(cls, steps: Sequence[Any], x: Any) -> Any:
        """Returns what `apply_all` does, for a tensor of a Keras model."""
        return cls.apply_all(steps, x)


def derive_known(step: Step, known: frozenset[Statistic]) -> frozenset[Statistic]:
    """Returns which statistics are known behind a step, out of those before it.

    Raises `ValueError` if the class contradicts itself.
    """
    follows = "forgotten" if step.several else step.statistics_after()
    if follows not in get_args(Follows):
        allowed = ", ".join(get_args(Follows))
        raise ValueError(f"statistics_after must return one of {allowed}, got {follows!r}")
    if follows in ("monotonic", "linear") and type(step).value is Step.value:
        raise ValueError(f"statistics_after returns {follows!r}, and that needs value(self, x)")
    if follows == "unchanged":
        return known
    if follows == "forgotten" or "percentiles" not in known:
        return frozenset()
    return OF_NUMBERS


def derive_values(step: Step, values: Values) -> Values:
    """Returns what is known behind a step that has all settings.

    Raises `ValueError` if the step has no result for values that are there.
    """
    follows = "forgotten" if step.several else step.statistics_after()
    kind, shape = step.gives or values.kind, step.out_shape(values.shape)
    if step.fills_gaps:
        filled = numbers_in(step.filling) if values.stand_in is not None else ()
        infinite = filter(math.isinf, values.others)
        values = dataclasses.replace(values, stand_in=None, others=(*infinite, *filled))
    listed = step.ids_of_each > 1 or (values.listed and step.lists == "items")
    if follows == "unchanged":
        return dataclasses.replace(values, kind=kind, shape=shape, listed=listed)
    ids = step.categories() if kind in ("ids", "bag") else None
    forgotten_by = values.forgotten_by or step.step
    unknown = Values(kind, shape, ids=ids, forgotten_by=forgotten_by, listed=listed)
    if follows == "forgotten" or values.percentiles is None:
        if ids is None and type(step).value is not Step.value:
            for x in filter(math.isinf, values.others):
                _value(step, x)
        return unknown
    others = tuple(_value(step, x) for x in values.others)
    mapped = tuple(_value(step, x) for x in values.percentiles)
    # Where more is claimed than is true, no wrong number comes of it.
    span = max(mapped) - min(mapped)
    backwards = mapped[-1] < mapped[0]
    steps = [(a - b if backwards else b - a) for a, b in itertools.pairwise(mapped)]
    if min(steps, default=0.0) < -_ORDER * span:
        return unknown
    ordered = mapped[::-1] if backwards else mapped
    linear = follows == "linear" and percentiles.are_on_line(values.percentiles, mapped)
    if linear and values.mean is not None and values.variance is not None:
        slope = _value(step, 1.0) - _value(step, 0.0)
        mean, variance = _value(step, values.mean), values.variance * slope**2
    else:
        mean, variance = _estimate_moments(values, mapped)
    known = Values(kind, shape, percentiles=ordered, mean=mean, variance=variance)
    return dataclasses.replace(known, others=others, listed=listed)


def numbers_in(value: float | int | str | None) -> tuple[float, ...]:
    """Returns a number as the only one; nothing for a text, NaN or `None`."""
    number = isinstance(value, int | float) and not math.isnan(value)
    return (float(value),) if number else ()  # type: ignore[arg-type]


def _estimate_moments(values: Values, mapped: tuple[float, ...]) -> tuple[float, float]:
    """Returns mean and variance of mapped values, by those of the values if that is nearly a line.

    The last percentile of a long tail may be far from the one before, and a straight line between
    them far from the truth. What leaves nearly all of a tail as it is leaves its moments.
    """
    found = percentiles.moments(mapped)
    before = values.percentiles or ()
    if values.mean is None or values.variance is None or not found[1]:
        return found
    chord = (mapped[-1] - mapped[0]) / (before[-1] - before[0])
    change, slope, rest = min(
        percentiles.leave_line(before, mapped, slope) for slope in (1.0, chord)
    )
    if change > _FEW * abs(mapped[-1] - mapped[0]):
        return found
    # With y = s x + r: E y = s E x + E r, and Var y = s^2 Var x + 2 s E (x - E x) r + Var r. r is
    # shifted to 0 at the tail, where percentiles of x are far apart, so that they do not matter.
    widest = max(range(len(before) - 1), key=lambda n: before[n + 1] - before[n])
    shift, rest = rest[widest], tuple(r - rest[widest] for r in rest)
    mean, spread = percentiles.moments(rest) if change else (0.0, 0.0)
    centred = [x - values.mean for x in before]
    pieces = list(zip(itertools.pairwise(centred), itertools.pairwise(rest), strict=True))
    products = [(2 * (a * c + b * d) + a * d + b * c) / 6 for (a, b), (c, d) in pieces]
    common = math.fsum(products) / len(pieces) if change else 0.0
    variance = slope**2 * values.variance + 2 * slope * common + spread
    return (slope * values.mean + shift + mean, variance) if variance > 0 else found


def _value(step: Step, x: float) -> float:
    try:
        found = step.value(x)
    except (ArithmeticError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise errors.UsageError(
            f"is not defined at {x:g}, which occurs in the data; put a clip before it"
        )
    return found
