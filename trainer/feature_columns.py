"""From features as planned to the `tf.feature_column`s that canned Estimators take."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.feature_plan import Planned

# Up to so many ids, a network gets one input for each.
_ONE_HOT = 8


def wide(features: Iterable[Planned]) -> list[Any]:
    """Returns columns of a linear model: numbers, and ids as they are."""
    return [column for feature in features for column in _columns(feature, dense=False)]


def deep(features: Iterable[Planned]) -> list[Any]:
    """Returns columns of a network: numbers, and ids as vectors."""
    return [column for feature in features for column in _columns(feature, dense=True)]


def of_part(features: Sequence[Planned], part: str) -> list[Planned]:
    """Returns the features of one part, `wide` or `deep`, of a model that has both.

    Raises `UsageError` if there are none.
    """
    found = [feature for feature in features if part in _parts(feature)]
    if not found:
        raise errors.UsageError(
            f"features: none is for the {part} part of dnn_linear_combined; say part: {part} at "
            "one, or use another model"
        )
    return found


def name_of(feature: str) -> str:
    """Returns a feature's name as names of variables and of scopes may be: in ASCII."""
    plain = re.sub(r"[^\x00-\x7f]", lambda match: f"u{ord(match[0]):x}", feature)
    return re.sub(r"[^A-Za-z0-9_.\\/-]", "_", plain)


def renamed(features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the features as columns look for them. Raises `UsageError` for two of one name."""
    found = {name_of(name): x for name, x in features.items()}
    if len(found) < len(features):
        names = [name_of(name) for name in features]
        twice = next(n for n in features if n != name_of(n) and names.count(name_of(n)) > 1)
        raise errors.UsageError(
            f"features.{twice}: canned Estimators call it {name_of(twice)!r}, as another feature "
            "is; name one of them differently"
        )
    return found


def embedding_width(feature: Planned) -> int:
    """Returns the width of the vectors of ids, 0 for one-hot."""
    wanted, ids = feature.feature.embedding, feature.ids or 0
    if wanted == "auto":
        return 0 if ids <= _ONE_HOT else math.ceil(2 * ids**0.25)
    return 0 if wanted == "one_hot" else wanted


def _parts(feature: Planned) -> tuple[str, ...]:
    wanted = feature.feature.part
    if wanted is not None:
        return ("wide", "deep") if wanted == "both" else (wanted,)
    if any(step.several for step in feature.steps):
        return ("wide",)
    return ("wide", "deep") if feature.kind in ("ids", "bag") else ("deep",)


def _columns(feature: Planned, *, dense: bool) -> list[Any]:
    columns = tf.feature_column
    found: list[Any] = []
    name = name_of(feature.name)
    if feature.indicator:
        found.append(
            columns.numeric_column(name_of(feature.indicator), feature.indicator_shape or (1,))
        )
    if feature.kind not in ("ids", "bag"):
        return [*found, columns.numeric_column(name, feature.shape or (1,))]
    ids = columns.categorical_column_with_identity(name, feature.ids)
    width = embedding_width(feature)
    if not dense:
        return [*found, ids]
    return [
        *found,
        columns.embedding_column(ids, width) if width else columns.indicator_column(ids),
    ]
