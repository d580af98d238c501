"""Lists whose vectors stay in order: of which features they can be, and for which models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config import model_config
from pipeline.config.feature_config import Embedding, Feature
from pipeline.config.model_config import Model

# Shipped models that take them.
MODELS = ("din",)


def check(features: Mapping[str, Feature], columns: Mapping[str, Any], model: Model) -> None:
    """Raises `ValueError` for sequences that are not one id of each item of a list or that the
    model does not take, and for a model of sequences without one."""
    found = [name for name, feature in features.items() if feature.sequence]
    for name in found:
        key = f"features.{name}.embedding.sequence"
        if model.name in model_config.CANNED and model.name not in MODELS:
            raise ValueError(
                f"{key}: {model.name} takes one vector of each list; leave sequence out, or use "
                f"model.name: {' or '.join(MODELS)}"
            )
        _check_items(key, features[name], features[name].inputs(name), columns=columns)
    if model.name not in MODELS:
        return
    if not found:
        raise ValueError(
            f"model.name: {model.name} is for sequences, and no feature is one; write embedding: "
            "{sequence: true} for a list of ids, or use dnn or dcn"
        )
    if model_config.settings(model.name, model.params).reduction == "attention":
        for name in found:
            _check_candidate(name, features, columns)


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


def _check_candidate(
    name: str, features: Mapping[str, Feature], columns: Mapping[str, Any]
) -> None:
    """What the items are compared with is the feature whose table they use."""
    key, embedding = f"features.{name}.embedding", features[name].embedding
    candidate = embedding.table if isinstance(embedding, Embedding) else None
    if candidate is None:
        raise ValueError(
            f"{key}: din compares the items with a candidate from the same table, and table is not "
            "set; write table: item, say, for the feature item, or model.params.reduction: mean"
        )
    feature = features[candidate]
    several = any(step.ids_of_each > 1 for step in feature.steps)
    if several or any(c in columns and columns[c].list for c in feature.inputs(candidate)):
        raise ValueError(
            f"{key}.table: din compares the items with one id, and {candidate!r} has several per "
            "row; name a feature of one, or write model.params.reduction: mean"
        )
