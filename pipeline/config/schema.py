"""What a job is: the typed config, one frozen object per section.

A config is one YAML file. Every value has a type, a range and, where one is sensible, a
default; unknown keys are refused. `pipeline.config.config_file` reads files into these objects.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from pipeline import places, storage
from pipeline.config import (
    feature_check,
    labels_config,
    model_config,
    own_input,
    sample_config,
    sequences,
    slices,
)
from pipeline.config.cluster_config import Cluster
from pipeline.config.data_config import Data
from pipeline.config.drift_config import Drift
from pipeline.config.eval_config import Eval
from pipeline.config.feature_config import Feature, Label
from pipeline.config.labels_config import Goal
from pipeline.config.model_config import Model
from pipeline.config.train_config import Train
from pipeline.models import MODELS
from pipeline.sections import Like, Section
from pipeline.steps import NotImported

# Names become folder names, so they must not be able to leave the folder they are put in.
Name = Annotated[str, Like(storage.NAME_PATTERN, "flights-2024")]


class _Job(Section):
    """One job, wherever it runs."""

    name: Name
    """Name of the job. Its records are in `records/<name>/`, and its runs start with it."""
    data: Data
    features: dict[str, Feature] = pydantic.Field(default={})
    """What the model gets, by name of the feature. Empty: the columns as they are."""
    label: Label = Label()
    labels: dict[str, Goal] = pydantic.Field(default={})
    """Several columns to predict, in place of `data.label`, by name. Empty: one. See
    [goals](goals.md)."""
    model: Model
    train: Train
    eval: Eval = Eval()
    cluster: Cluster = Cluster()
    drift: Drift = Drift()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _labels_are_known_to_data(cls, tree: Any) -> Any:
        return labels_config.with_labels_in_data(tree)

    @pydantic.model_validator(mode="after")
    def _features_can_be_made(self) -> _Job:
        if not self.data.has_records:
            own_input.check_job(self)
            return self
        labels_config.check(self)
        every = (step for feature in self.features.values() for step in feature.steps)
        if any(isinstance(step, NotImported) for step in every):
            return self  # what follows depends on what the steps take and give
        feature_check.check(
            self.features, label=self.label, data_label=self.data.label, columns=self.data.columns
        )
        if self.model.name in MODELS and not self.labels:
            column = self.data.columns[self.data.label]
            feature_check.check_label(self.label, self.data.label, column)
        model_config.check(self.model, has_features=bool(self.features))
        sequences.check(self.features, self.data.columns, self.model)
        if (shipped := model_config.find_shipped_settings(self.model)) is not None:
            if shipped.of_features:
                feature_check.check_names(self.features)
            shipped.check(self)
        if (sample := self.data.sample) is not None:
            sample_config.check_correction(
                sample, data_label=self.data.label, label=self.label, model=self.model
            )
        slices.check(self.eval.slices, self.data.columns, "eval.slices")
        if self.eval.slices:
            model_config.check_slices(self.model, "eval.slices")
        if self.eval.group is not None:
            slices.check_group(self.eval.group, self.data.columns, "eval.group")
            if not self.labels:
                model_config.check_group(self.model, "eval.group")
            if self.eval.group in self.data.every_label:
                raise ValueError(
                    f"eval.group: {self.eval.group!r} is the label, which is the same within each "
                    "group: nothing is in order there; name a column such as a user or a query"
                )
        return self


if TYPE_CHECKING:

    class Config(_Job):
        """One job. The section of a place is `Slurm.of(config)`."""

else:
    # With a section for each place that has settings.
    Config = pydantic.create_model(
        "Config",
        __base__=_Job,
        __module__=__name__,
        __doc__="One job.",
        **{name: (section, section()) for name, section in places.settings().items()},
    )


def digest(section: pydantic.BaseModel | dict[str, Any]) -> str:
    """Returns a hex SHA-256 of the values of `section`, the same for equal values."""
    values = section.model_dump(mode="json") if isinstance(section, Section) else section
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
