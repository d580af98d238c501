"""What shipped models are told under `model.params`, and where a model may start from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from pipeline import errors
from pipeline.config.sections import Fraction, Positive, Section


class Mnist(Section):
    """The networks for images of digits."""

    classes: Annotated[int, pydantic.Field(ge=2)] = 10


class _Canned(Section):
    """What is predicted: one of `classes`, or with `task: regression` a number."""

    task: Literal["classification", "regression"] = "classification"
    classes: Annotated[int, pydantic.Field(ge=2)] = 2


class _OfLogits(_Canned):
    """The number predicted is `offset` + `scale` times what the model gives: with about the mean
    and the deviation of the labels, it need only learn numbers about 1."""

    offset: float = 0.0
    scale: Annotated[float, pydantic.Field(gt=0)] = 1.0

    @pydantic.model_validator(mode="after")
    def _only_of_numbers(self) -> _OfLogits:
        if self.task != "regression" and (self.offset, self.scale) != (0.0, 1.0):
            raise ValueError("offset and scale are for task: regression")
        return self


class Linear(_OfLogits):
    """A weight for every number and every id."""


class Dnn(_OfLogits):
    """A network of fully connected layers, of so many units each."""

    hidden_units: Annotated[tuple[Positive, ...], pydantic.Field(min_length=1)] = (128, 64)
    activation: Literal["relu", "tanh", "sigmoid", "elu", "selu", "swish"] = "relu"
    dropout: Fraction = 0.0
    batch_norm: bool = False


class Keras(_Canned):
    """Any `tf.keras` model: `network` is `package.module:function` of one that returns it when
    called with `arguments`. Its last layer gives probabilities, or with `task: regression` numbers.
    """

    network: Annotated[str, pydantic.Field(pattern=r"^[\w.]+:[\w.]+$")]
    arguments: dict[str, Any] = pydantic.Field(default={})
    # Of all its layers of that kind, in place of their own.
    batch_norm_momentum: Fraction | None = None


PARAMS: Mapping[str, type[Section]] = {
    "mnist_cnn": Mnist,
    "mnist_mlp": Mnist,
    "linear": Linear,
    "dnn": Dnn,
    "dnn_linear_combined": Dnn,
    "keras": Keras,
}
# These are built from the features of the config.
CANNED = ("linear", "dnn", "dnn_linear_combined")


class WarmStart(Section):
    """Variables that begin with values of a checkpoint or a SavedModel, `path`.

    `variables` is a regular expression of names; all trainable ones that both have, unless it is
    given. `names` maps names of this model to those they have in `path`.
    """

    path: str
    variables: str = ".*"
    names: dict[str, str] = pydantic.Field(default={})

    @pydantic.field_validator("variables")
    @classmethod
    def _is_a_regular_expression(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return pattern


class Model(Section):
    """Which model: a name of `trainer.models`, or `package.module:attribute` of your own."""

    name: str
    params: dict[str, Any] = pydantic.Field(default={})
    warm_start: WarmStart | None = None


def params(model: Model) -> dict[str, Any]:
    """Returns what a model is told: for a shipped one also the defaults of what is not given."""
    if model.name not in PARAMS:
        return dict(model.params)
    return PARAMS[model.name].model_validate(model.params).model_dump()


def check(model: Model, *, has_features: bool) -> None:
    """Raises `ValueError` for params that a shipped model does not know, with those it does."""
    if model.name in CANNED and not has_features:
        raise ValueError(
            f"model.name: {model.name!r} is built from features, and there are none; declare some "
            "under features"
        )
    if model.name not in PARAMS:
        return
    try:
        PARAMS[model.name].model_validate(model.params)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        known = list(PARAMS[model.name].model_fields)
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            reason = f"{model.name} has no such param{errors.nearest(key, known)}; it has "
            reason += ", ".join(known)
        elif first["type"] == "value_error":
            reason = str(first["ctx"]["error"])
        else:
            reason = f"{first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r}"
        raise ValueError(f"{'.'.join(filter(None, ('model.params', key)))}: {reason}") from None
