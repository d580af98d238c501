"""Weights of the items of lists: whether a column has one for each item of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import errors
from pipeline.config.feature_config import Feature


def weights_name(feature: str) -> str:
    """Returns what the weights of a feature are called where models get them."""
    return f"{feature}_item_weights"


def check(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> None:
    """Raises `ValueError` for weights that are no numbers, one for each item, from 0 on."""
    for name, feature in features.items():
        if feature.weights is None:
            continue
        if weights_name(name) in features:
            raise ValueError(
                f"features.{weights_name(name)}: this name is taken by weights; use another"
            )
        key = f"features.{name}.embedding.weights"
        _check(key, feature.weights, of=feature.inputs(name), columns=columns)


def _check(key: str, weights: str, *, of: tuple[str, ...], columns: Mapping[str, Any]) -> None:
    if len(of) != 1 or of[0] not in columns or not columns[of[0]].list:
        raise ValueError(f"{key}: weights are for the items of one column with list: true")
    (items,) = of
    if weights not in columns:
        raise ValueError(f"{key}: {weights!r} is not a column{errors.suggest(weights, columns)}")
    column = columns[weights]
    if not column.list or column.type == "string":
        got = f"a list of {column.type}" if column.list else f"one {column.type}"
        raise ValueError(f"{key}: {weights!r} is {got}, must be a list of float32 or int64")
    if column.same_length_as != items:
        raise ValueError(
            f"{key}: {weights!r} may have more or fewer items than {items!r}; write "
            f"same_length_as: {items} in data.columns.{weights}"
        )
    if column.min is None or column.min < 0:
        raise ValueError(
            f"{key}: {weights!r} may be negative; write min: 0 in data.columns.{weights}"
        )
