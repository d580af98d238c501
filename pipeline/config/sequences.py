"""Lists whose vectors stay in order, or know their places: of which features they can be, and for
which models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config.feature_config import Feature
from pipeline.config.model_config import Model
from pipeline.models import MODELS


def check(features: Mapping[str, Feature], columns: Mapping[str, Any], model: Model) -> None:
    """Raises `ValueError` for sequences that are not one id of each item of a list or that the
    model does not take, and for places of what is no list."""
    shipped = MODELS.get(model.name)
    for name, feature in features.items():
        key, inputs = f"features.{name}.embedding", feature.inputs(name)
        if feature.sequence:
            if shipped and shipped.of_features and not shipped.sequences:
                takers = [taker for taker, settings in MODELS.items() if settings.sequences]
                raise ValueError(
                    f"{key}.sequence: {model.name} takes one vector of each list; leave sequence "
                    f"out, or use model.name: {' or '.join(takers)}"
                )
            _check_items(f"{key}.sequence", feature, inputs, columns=columns)
            _check_single(f"{key}.sequence", feature)
        if feature.position:
            _check_items(f"{key}.position", feature, inputs, columns=columns)


def _check_items(
    key: str, feature: Feature, inputs: tuple[str, ...], *, columns: Mapping[str, Any]
) -> None:
    if len(inputs) != 1 or inputs[0] not in columns or not columns[inputs[0]].list:
        raise ValueError(
            f"{key}: is for the items of one column with list: true, and "
            f"{_describe_inputs(inputs, columns)}; leave it out"
        )
    for step in feature.steps:
        if step.lists == "whole":
            raise ValueError(f"{key}: {step.step} makes one value of the list; leave one out")


def _describe_inputs(inputs: tuple[str, ...], columns: Mapping[str, Any]) -> str:
    if len(inputs) > 1:
        return f"{', '.join(map(repr, inputs))} are several"
    (name,) = inputs
    return f"{name!r} is one {columns[name].type}" if name in columns else f"{name!r} is a feature"


def _check_single(key: str, feature: Feature) -> None:
    for step in feature.steps:
        if step.ids_of_each > 1:
            raise ValueError(
                f"{key}: takes one id of each item, and {step.step} gives {step.ids_of_each}"
            )
