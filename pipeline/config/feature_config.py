"""What models are fed: features made of columns in steps, and the label.

A feature is what its steps (`pipeline.steps`) make of its columns. Each step takes some kinds of
values and gives one, so that what cannot work is refused when the config is read; what needs
statistics of the records is filled in by `pipeline.records.feature_plan`. The steps are explained,
with formulas, in docs/features.md.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pydantic

from pipeline import steps
from pipeline.sections import Finite, Positive, Section
from pipeline.steps.base import Step

# Up to so many ids, a network gets one input for each.
_ONE_HOT = 8
# In the context of a validation: whether steps of the user's own are imported.
IMPORT_STEPS = "import_steps"


def _build_step(given: Any, info: pydantic.ValidationInfo) -> Step:
    return steps.build_step(given, import_own=(info.context or {}).get(IMPORT_STEPS, True))


AnyStep = Annotated[pydantic.SerializeAsAny[Step], pydantic.BeforeValidator(_build_step)]


def _check_width(given: Any, words: tuple[str, ...]) -> Any:
    """Returns what was given. Says of a value that is neither width nor one of `words` what is
    allowed, where pydantic names each kind of value there may be."""
    is_width = isinstance(given, int) and given > 0
    if isinstance(given, str | int | float) and given not in words and not is_width:
        raise ValueError(f"must be a width of 1 or more, or {' or '.join(words)}, got {given!r}")
    return given


class Embedding(Section):
    """How the ids of a feature become vectors, and those of a list one vector."""

    size: Positive | Literal["auto"] = "auto"
    """Width of the vectors. `auto`: twice the fourth root of the number of ids, rounded up."""
    combiner: Literal["mean", "sum", "sqrtn", "max"] = "mean"
    """What becomes of the vectors of a list: their mean, their sum, the sum divided by the square
    root of their number, or the largest of each component. An empty list gives zeros."""
    table: str | None = None
    """Another feature whose table of vectors this one uses, such as `item` for a list of clicked
    items. Both need steps that give the same ids, and `size` is that of the other. Not set: a table
    of its own."""
    weights: str | None = None
    """A column with a number for each item of the list, by which its vector counts; not with `max`.
    Its `same_length_as` is the list, and its `min` 0 or more. The linear part multiplies by it,
    too. Not set: all items count the same."""
    sequence: bool = False
    """Keeps the vector of each item of a list, in order, for a model of sequences: `din`, or one of
    your own. Not with `combiner` and `weights`."""
    position: bool = False
    """Adds to the vector of each item a learned vector of its place in the list, one of
    `max_items`. That of a place which no list of train reaches is 0. Not with `max`. A linear part
    does not see places."""

    @pydantic.field_validator("size", mode="before")
    @classmethod
    def _width(cls, given: Any) -> Any:
        return _check_width(given, ("auto",))

    @pydantic.model_validator(mode="after")
    def _sequences_are_not_combined(self) -> Embedding:
        given = "combiner" if self.combiner != "mean" else "weights" if self.weights else None
        if self.sequence and given:
            raise ValueError(
                f"sequence keeps the vectors of all items, and {given} is for combining them; "
                "leave one of the two out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _max_adds_nothing_up(self) -> Embedding:
        if self.combiner == "max" and self.weights is not None:
            raise ValueError("weights are for the combiners mean, sum and sqrtn, got max")
        if self.combiner == "max" and self.position:
            raise ValueError("position is for the combiners mean, sum and sqrtn, got max")
        return self


class Feature(Section):
    """One feature: the values of a column after its steps."""

    of: tuple[str, ...] = ()
    """The column, or else the other feature, that it is made of; several for `cross`. A single one
    needs no list. Empty: the column with the name of the feature. Not the label column."""
    steps: tuple[AnyStep, ...] = ()
    """[Steps](#feature-steps) that are applied in this order; a single step needs no list."""
    embedding: Positive | Literal["auto", "one_hot"] | Embedding = "auto"
    """How ids enter a network: as vectors of this width, or `one_hot`. `auto`: one-hot up to 8 ids,
    above that vectors as wide as twice the fourth root of their number. A mapping is for lists, and
    says how their vectors are combined."""
    part: Literal["wide", "deep", "both"] | None = None
    """Which part gets the feature: `wide` is the linear model, `deep` the network. Not set: the
    linear model gets ids, the network everything except crosses. Used only by
    `dnn_linear_combined`."""

    @pydantic.field_validator("of", mode="before")
    @classmethod
    def _accept_one_name(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @pydantic.field_validator("of")
    @classmethod
    def _refuse_duplicates(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if twice := next((name for name in given if given.count(name) > 1), None):
            raise ValueError(f"{twice!r} is named {given.count(twice)} times; name it once")
        return given

    @pydantic.field_validator("steps", mode="before")
    @classmethod
    def _accept_one_step(cls, given: Any) -> Any:
        """Takes one step as well as a list of them."""
        return (given,) if isinstance(given, str | dict) else given

    @pydantic.field_validator("embedding", mode="before")
    @classmethod
    def _check_mapping(cls, given: Any) -> Any:
        """Names the key of a mapping that is wrong, and not what else might have been written."""
        if isinstance(given, dict):
            return Embedding.model_validate(given)
        return _check_width(given, ("auto", "one_hot"))

    @property
    def combiner(self) -> str:
        """What becomes of the vectors of several ids."""
        return self.embedding.combiner if isinstance(self.embedding, Embedding) else "mean"

    @property
    def sequence(self) -> bool:
        """Whether the vectors of a list stay in order, and are not combined."""
        return isinstance(self.embedding, Embedding) and self.embedding.sequence

    @property
    def position(self) -> bool:
        """Whether the place of an item in its list has a vector, too."""
        return isinstance(self.embedding, Embedding) and self.embedding.position

    @property
    def weights(self) -> str | None:
        """The column with a weight for each item."""
        return self.embedding.weights if isinstance(self.embedding, Embedding) else None

    def width(self, ids: int) -> int:
        """Returns the width of the vectors of so many ids, 0 for one-hot."""
        wanted, auto = self.embedding, math.ceil(2 * ids**0.25)
        if isinstance(wanted, Embedding):
            return auto if wanted.size == "auto" else wanted.size
        if wanted == "auto":
            return 0 if ids <= _ONE_HOT else auto
        return 0 if wanted == "one_hot" else wanted

    def parts(self, *, of_ids: bool) -> tuple[str, ...]:
        """Returns the parts of `dnn_linear_combined` that get the feature."""
        if self.part is not None:
            return ("wide", "deep") if self.part == "both" else (self.part,)
        if any(step.several for step in self.steps):
            return ("wide",)
        return ("wide", "deep") if of_ids else ("deep",)

    def reads(self, name: str) -> tuple[str, ...]:
        """Returns the names of all columns or features that a feature called `name` needs."""
        return self.inputs(name) + (() if self.weights is None else (self.weights,))

    def inputs(self, name: str) -> tuple[str, ...]:
        """Returns the names of columns or features that a feature called `name` is made of."""
        return self.of or (name,)


class Label(Section):
    """What the model predicts: by default the value of the label column, `data.label`."""

    threshold: Finite | None = None
    """Makes the label 1 if the value is greater than this, else 0. Only for numbers, and not with
    `vocabulary`."""
    vocabulary: bool = False
    """Makes the label the place of the value in the column's vocabulary, or in its `allowed`.
    Required for texts by the models of this project."""
    weight: str | None = None
    """Column with the weight of each example: one number, never missing, not a label. Not set:
    all weigh the same. Not with `balanced`."""
    balanced: bool = False
    """Weighs examples so that all classes of the train split weigh the same."""

    @pydantic.model_validator(mode="after")
    def _do_not_contradict(self) -> Label:
        if self.threshold is not None and self.vocabulary:
            raise ValueError("threshold and vocabulary exclude each other")
        if self.weight is not None and self.balanced:
            raise ValueError("weight and balanced exclude each other")
        return self
