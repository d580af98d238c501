"""What settings of models are made of, and what a model may say of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import pydantic

from pipeline.sections import Above0, Finite, Fraction, Positive, Section

_M = TypeVar("_M", bound="ModelSettings")


# What the model of several classes reports in an evaluation, that of two, and that of a number.
METRICS_OF_CLASSES = ("accuracy", "average_loss", "log_loss", "loss")
METRICS_OF_TWO_CLASSES = (
    "accuracy",
    "accuracy_baseline",
    "auc",
    "average_loss",
    "average_precision",
    "calibration",
    "label/mean",
    "log_loss",
    "loss",
    "normalized_entropy",
    "precision",
    "prediction/mean",
    "recall",
)
METRICS_OF_NUMBERS = (
    "average_loss",
    "label/mean",
    "loss",
    "mean_absolute_error",
    "prediction/mean",
    "rmse",
)
# Kinds of values that are ids.
_IDS = ("ids", "bag")
# Metrics of earlier versions.
SUCCESSORS = {"auc_precision_recall": "average_precision"}


def metrics_of_groups(top: int) -> tuple[str, ...]:
    """Returns what the model of two classes reports besides with `eval.group`: the area within
    groups, and metrics of the first `top` of each."""
    return "grouped_auc", f"ndcg@{top}", f"mrr@{top}", f"hit_rate@{top}"


class ModelSettings(Section):
    """The params of a model, `model.params`, and what it takes of the rest of a config."""

    # The values of `model.name` with these settings. Each is a module of trainer/models/.
    names: ClassVar[tuple[str, ...]] = ()
    # Whether it is built from the features of the config, for which it needs some.
    of_features: ClassVar[bool] = False
    # Whether it has a last layer for each of several `labels`.
    several_labels: ClassVar[bool] = False
    # What it takes by name: features, or columns if no features are declared.
    inputs: ClassVar[tuple[str, ...]] = ()
    # Whether its network is code of the user.
    own_network: ClassVar[bool] = False
    # Whether it takes lists whose vectors stay in order, `embedding: {sequence: true}`.
    sequences: ClassVar[bool] = False
    # Whether it predicts the label, as a class or a number; metrics by slice and group need that.
    predicts_label: ClassVar[bool] = True

    @classmethod
    def of(cls: type[_M], params: Mapping[str, Any]) -> _M:
        """Returns the settings among the params that a model is built with."""
        return cls.model_validate({key: params[key] for key in cls.model_fields if key in params})

    @property
    def label_classes(self) -> int | None:
        """How many classes the label must be one of; `None` for any label."""
        return None

    @property
    def metrics(self) -> tuple[str, ...] | None:
        """What it reports in an evaluation without `eval.group`; `None` if that is known of the
        built model alone."""
        return None

    @property
    def apart(self) -> tuple[tuple[str, ...], ...]:
        """Features that are made apart, so that the model can be asked with the columns of one
        part alone; empty if all are made together."""
        return ()

    @property
    def counted_feature(self) -> str | None:
        """The feature of ids whose shares of the rows of train the model needs, if any."""
        return None

    def table_parts(self, feature: Any, job: Any) -> tuple[str, ...]:
        """Returns which tables it has of a feature of ids: `wide`, a weight of each id for each
        output; `deep`, a vector of each id."""
        return ("deep",)

    def vector_width(self, feature: Any, ids: int) -> int:
        """Returns how wide the vectors of a feature with so many ids are; 0 if it has none."""
        return int(feature.width(ids))

    def layer_shapes(self, width: int) -> tuple[tuple[int, int], ...]:
        """Returns the shapes of the matrices that get all features side by side, of which so much
        `width` is known, of each tower that is apart."""
        return ()

    def item_width(self, size: int) -> int:
        """Returns how many numbers it computes of each item of a sequence, also of what pads it,
        whose vectors are of this `size`."""
        return size

    def other_params(self, job: Any) -> dict[str, Any]:
        """Returns params that are taken from other sections of a config."""
        return {}

    def check(self, job: Any) -> None:
        """Raises `ValueError` for what the model cannot take of other sections of a config."""


class OfClasses(ModelSettings):
    """Settings of models that predict a class or a number."""

    task: Literal["classification", "regression"] = "classification"
    """Whether the model predicts one of `classes` or a number."""
    classes: Annotated[int, pydantic.Field(ge=2)] = 2
    """Number of classes. Labels are 0 to one less. Used only for classification."""

    @property
    def label_classes(self) -> int | None:
        """How many classes the label must be one of; `None` of a number."""
        return self.classes if self.task == "classification" else None


class OfLogits(OfClasses):
    """Settings of models that predict `offset` + `scale` times what their last layer gives."""

    offset: Finite = 0.0
    """Added to predictions; best about the mean of the labels. Only for `task: regression`."""
    scale: Above0 = 1.0
    """What predictions are multiplied by before `offset` is added; best about the standard
    deviation of the labels. Only for `task: regression`."""

    @property
    def metrics(self) -> tuple[str, ...] | None:
        """What it reports of a number, or of classes without `eval.group`."""
        if self.task == "regression":
            return METRICS_OF_NUMBERS
        return METRICS_OF_TWO_CLASSES if self.classes == 2 else METRICS_OF_CLASSES

    @pydantic.model_validator(mode="after")
    def _check_regression(self) -> OfLogits:
        if self.task != "regression" and (self.offset, self.scale) != (0.0, 1.0):
            raise ValueError("offset and scale are for task: regression")
        return self


class HiddenLayers(ModelSettings):
    """Settings of fully connected layers."""

    hidden_units: Annotated[tuple[Positive, ...], pydantic.Field(min_length=1)] = (128, 64)
    """Units of each hidden layer."""
    activation: Literal["relu", "tanh", "sigmoid", "elu", "selu", "swish"] = "relu"
    """Activation function of the hidden layers."""
    dropout: Fraction = 0.0
    """Share of the units that are dropped in training."""

    def layer_shapes(self, width: int) -> tuple[tuple[int, int], ...]:
        """That of the first hidden layer."""
        return ((width, self.hidden_units[0]),)


class Layers(HiddenLayers, OfLogits):
    """The same, of models that predict a class or a number."""


def gives_ids(name: str, features: Mapping[str, Any]) -> bool:
    """Tells if the values of a feature are ids, one or several a row, behind its steps."""
    steps = features[name].steps
    if steps:
        return steps[-1].gives in _IDS
    return any(
        gives_ids(given, features)
        for given in features[name].inputs(name)
        if given != name and given in features
    )


def columns_of(names: Iterable[str], job: Any) -> dict[str, str]:
    """Returns the columns that features are made of, through others or not, each with the first of
    `names` that it is for."""
    found: dict[str, str] = {}
    for name in names:
        left = [name]
        while left:
            now = left.pop()
            for given in job.features[now].reads(now):
                if given in job.data.columns:
                    found.setdefault(given, name)
                elif given in job.features:
                    left.append(given)
    return found
