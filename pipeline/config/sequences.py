"""Lists whose vectors stay in order: of which features they can be, and for which models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config.feature_config import Feature
from pipeline.config.model_config import Model
from pipeline.models import MODELS


def check(features: Mapping[str, Feature], columns: Mapping[str, Any], model: Model) -> None:
    """Raises `ValueError` for sequences that are not one id of each item of a list or that the
    model does not take."""
    shipped = MODELS.get(model.name)
    found = [name for name, feature in features.items() if feature.sequence]
    for name in found:
        key = f"features.{name}.embedding.sequence"
        if shipped and shipped.of_features and not shipped.sequences:
            takers = [taker for taker, settings in MODELS.items() if settings.sequences]
            raise ValueError(
                f"{key}: {model.name} takes one vector of each list; leave sequence out, or use "
                f"model.name: {' or '.join(takers)}"
            )
        _check_items(key, features[name], features[name].inputs(name), columns=columns)


def _check_items(
    key: str, feature: Feature, inputs: tuple[str, ...], *, columns: Mapping[str, Any]
) -> None:
    if len(inputs) != 1 or inputs[0] not in columns or not columns[inputs[0]].list:
        raise ValueError(f"{key}: is for the items of one column with list: true")
    for step in feature.steps:
        if step.lists == "whole":
            raise ValueError(f"{key}: {step.step} makes one value of the list; leave one out")
        if step.ids_of_each > 1:
            raise ValueError(
                f"{key}: takes one id of each item, and {step.step} gives {step.ids_of_each}"
            )
