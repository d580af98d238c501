"""What models are fed: features made of columns in steps, and the label.

A feature is what its steps (`pipeline.steps`) make of its columns. Each step takes some kinds of
values and gives one, so that what cannot work is refused when the config is read; what needs
statistics of the records is filled in by `pipeline.records.feature_plan`. The steps are explained,
with formulas, in docs/features.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from pipeline import steps
from pipeline.config.sections import Positive, Section
from pipeline.steps.base import Step

AnyStep = Annotated[pydantic.SerializeAsAny[Step], pydantic.BeforeValidator(steps.made)]


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
        """Takes one step as well as a list of them."""
        return (given,) if isinstance(given, str | dict) else given

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
