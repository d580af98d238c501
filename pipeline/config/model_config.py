"""What shipped models are told under `model.params`, and where a model may start from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from pipeline import errors
from pipeline.sections import Above0, Fraction, Positive, Section


class Mnist(Section):
    """Networks for images of digits."""

    classes: Annotated[int, pydantic.Field(ge=2)] = 10
    """Number of classes. Labels are 0 to one less."""


class _Canned(Section):
    """Settings of models that predict a class or a number."""

    task: Literal["classification", "regression"] = "classification"
    """Whether the model predicts one of `classes` or a number."""
    classes: Annotated[int, pydantic.Field(ge=2)] = 2
    """Number of classes. Labels are 0 to one less. Used only for classification."""


class _OfLogits(_Canned):
    """Settings of models that predict `offset` + `scale` times what their last layer gives."""

    offset: float = 0.0
    """Added to predictions; best about the mean of the labels. Only for `task: regression`."""
    scale: Above0 = 1.0
    """What predictions are multiplied by before `offset` is added; best about the standard
    deviation of the labels. Only for `task: regression`."""

    @pydantic.model_validator(mode="after")
    def _only_of_numbers(self) -> _OfLogits:
        if self.task != "regression" and (self.offset, self.scale) != (0.0, 1.0):
            raise ValueError("offset and scale are for task: regression")
        return self


class Linear(_OfLogits):
    """A linear model: one weight for every number and every id. It needs `features`."""


class HiddenLayers(Section):
    """Settings of fully connected layers."""

    hidden_units: Annotated[tuple[Positive, ...], pydantic.Field(min_length=1)] = (128, 64)
    """Units of each hidden layer."""
    activation: Literal["relu", "tanh", "sigmoid", "elu", "selu", "swish"] = "relu"
    """Activation function of the hidden layers."""
    dropout: Fraction = 0.0
    """Share of the units that are dropped in training."""


class Layers(HiddenLayers, _OfLogits):
    """The same, of models that predict a class or a number."""


class Dnn(Layers):
    """A network of fully connected layers; `dnn_linear_combined` adds a linear model to it. Both
    need `features`."""

    batch_norm: bool = False
    """Normalizes each hidden layer over the batch."""


class DeepFm(Layers):
    """A linear model, the products of each two vectors of ids, and a network, added. It needs
    `features`, of which one is ids."""

    factors: Positive = 8
    """Width of the vectors of all ids."""

    @pydantic.model_validator(mode="after")
    def _one_logit(self) -> DeepFm:
        if self.task == "classification" and self.classes != 2:
            raise ValueError(
                f"deepfm predicts one of two classes or a number, got classes: {self.classes}; "
                "use dcn or dnn"
            )
        return self


class Dcn(Layers):
    """Cross layers, each of which multiplies all features once more, next to a network of fully
    connected layers. It needs `features`."""

    cross_layers: Positive = 3
    """Number of cross layers; n of them make products of up to n + 1 features."""
    rank: Positive | None = None
    """Makes the square matrix of each cross layer the product of two that are this narrow. Not
    set: the matrix is whole."""


class Din(Layers):
    """A network of fully connected layers over all features, of which those with `embedding:
    {sequence: true}` become one vector each. It needs `features`, of which one is a sequence."""

    reduction: Literal["attention", "mean", "last", "gru"] = "attention"
    """What becomes of the vectors of a sequence. `attention`: their sum, each times what a small
    network makes of it and the candidate, the feature that `embedding.table` names. `mean`; `last`,
    the vector of the last item; `gru`, the last state of a recurrent layer. An empty list gives
    zeros."""
    attention_units: Annotated[tuple[Positive, ...], pydantic.Field(min_length=1)] = (36,)
    """Units of each hidden layer of that small network. Only for `attention`."""


class Mmoe(Layers):
    """Several networks, the experts, of which each label has its own mixture. It needs `features`,
    and is for several [`labels`](#labelsname). `hidden_units` are those of each expert."""

    experts: Positive = 4
    """Number of experts."""
    tower_units: tuple[Positive, ...] = (32,)
    """Units of the hidden layers that each label has for itself."""


class TwoTower(HiddenLayers):
    """Two networks, the towers: one makes a vector of a user, one of an item, and their dot product
    is the score. Each learns to find the item of its row among those of the batch. It needs
    `features`."""

    user: tuple[str, ...]
    """Features of the user, and of the query or the moment."""
    item: tuple[str, ...]
    """Features of the item. Each feature belongs to one of the two, and no column to both."""
    hidden_units: tuple[Positive, ...] = (64,)
    """Units of each hidden layer of both towers; `[]` for none."""
    size: Positive = 32
    """Width of the vectors, which a linear layer makes of the last hidden one."""
    normalize: bool = True
    """Makes all vectors as long as 1, so that scores are from -1 to 1."""
    temperature: Above0 = 0.05
    """What scores are divided by in the loss: the smaller, the more the closest wrong items count.
    Without `normalize`, 1 is usual."""
    item_id: str | None = None
    """The feature of the item that tells items apart, one id a row. An item that is in a batch
    twice is then not taken for a wrong one. Not set: every row is an item of its own."""
    log_q: bool = False
    """Subtracts from each score, in the loss, the logarithm of the item's share of the rows of
    train: popular items are in more batches, and would be punished for it. Needs `item_id`, made by
    one step, `vocabulary` or `identity`."""
    positives: Literal["label", "all"] = "label"
    """Which rows teach: those whose label is 1, or `all`, whatever the label is. The items of other
    rows still are among those to choose from."""


class Keras(_Canned):
    """Any `tf.keras` model. Its last layer gives probabilities, or a number for regression."""

    network: Annotated[str, pydantic.Field(pattern=r"^[\w.]+:[\w.]+$")]
    """A function that returns the model, as `package.module:function`."""
    arguments: dict[str, Any] = pydantic.Field(default={})
    """Keyword arguments of that function."""
    batch_norm_momentum: Fraction | None = None
    """Momentum of all batch normalization layers. Not set: that of each layer."""


PARAMS: Mapping[str, type[Section]] = {
    "mnist_cnn": Mnist,
    "mnist_mlp": Mnist,
    "linear": Linear,
    "dnn": Dnn,
    "dnn_linear_combined": Dnn,
    "deepfm": DeepFm,
    "dcn": Dcn,
    "din": Din,
    "mmoe": Mmoe,
    "two_tower": TwoTower,
    "keras": Keras,
}
# These are built from the features of the config.
CANNED = ("linear", "dnn", "dnn_linear_combined", "deepfm", "dcn", "din", "mmoe", "two_tower")


# What a model is told besides: of which class `data.sample` makes the logit too small, by how much.
OFFSET = "offset_of_sample"
# And what the head of each of several labels is told, by label; `weight` is that of its loss.
GOALS = "goals"
# And the `eval.top_k` of metrics that a model has itself.
TOP_K = "top_k"


_BESIDES = ("optimizer", OFFSET, GOALS, TOP_K)


class WarmStart(Section):
    """Variables that start with the values of a checkpoint or a SavedModel. Not set: none."""

    path: str
    """A checkpoint, a folder of checkpoints (the newest is used), or a SavedModel. Relative paths
    start at the working folder."""
    variables: str = ".*"
    """Regular expression for the names of the trainable variables to take, matched from the start
    of a name; variables that `path` does not have are left out."""
    names: dict[str, str] = pydantic.Field(default={})
    """Names of variables of this model whose name in `path` is different, and that name."""

    @pydantic.field_validator("variables")
    @classmethod
    def _is_a_regular_expression(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return pattern


# What a config has in place of a model where no column makes a feature.
PLACEHOLDER = "package.module:model_fn"


class Model(Section):
    """The model, and what it starts from."""

    name: str
    """A model of this project, listed with its `model.params` below, or `package.module:attribute`
    of your own. See [models.md](models.md)."""
    params: dict[str, Any] = pydantic.Field(default={})
    """Settings of the model. A model of your own gets them as they are."""
    warm_start: WarmStart | None = None


def params(model: Model) -> dict[str, Any]:
    """Returns what a model is told: for a shipped one also the defaults of what is not given."""
    if model.name not in PARAMS:
        return dict(model.params)
    return PARAMS[model.name].model_validate(model.params).model_dump()


def settings(name: str, params: Mapping[str, Any]) -> Any:
    """Returns the settings of a shipped model, of what it is told when it is built."""
    given = {key: value for key, value in params.items() if key not in _BESIDES}
    return PARAMS[name].model_validate(given)


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
