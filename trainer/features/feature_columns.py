"""From features as planned to the `tf.feature_column`s that canned Estimators take."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.config import feature_check
from pipeline.records.feature_plan import Planned
from trainer.features import embedding, packing, positions

# The classes have no public names, and to make one when this is imported would log a deprecation.
_NUMERIC, _INDICATOR = "NumericColumn", "IndicatorColumn"


def build_deep_columns(features: Iterable[Planned]) -> list[Any]:
    """Returns columns of a network: numbers, and ids as vectors."""
    return [column for feature in features for column in _build_columns(feature)]


def has_one_id(feature: Planned) -> bool:
    """Tells if a feature is one id for each row. A step of one's own may have given none: -1."""
    own = any(":" in step.step for step in feature.steps)
    return feature.kind == "ids" and feature.shape in ((), (1,)) and not own


class PackedFeature(NamedTuple):
    """A feature in a packed column: a number, or one of `ids` categories, one number for each."""

    feature: str
    ids: int | None = None


Packed = dict[str, tuple[PackedFeature, ...]]


def pack_columns(features: Iterable[Planned]) -> tuple[list[Any], Packed]:
    """Returns the columns of a network, with those that are one number each, or one of a few
    categories, and follow each other as one; and what each of these new ones is made of, in order.

    A network gets its columns in the order of their names, so its input stays what it was; its
    graph has a few ops in place of ten for each number and twenty for each category.
    """
    features = list(features)
    one_each = {
        feature_check.make_plain_name(feature.name)
        for feature in features
        if feature.kind == "ids" and feature.shape in ((), (1,)) and feature.weights is None
    }
    found: list[Any] = []
    made: Packed = {}
    ordered = sorted(build_deep_columns(features), key=lambda column: column.name)
    names = {column.name for column in ordered}
    names |= {feature_check.make_plain_name(feature.name) for feature in features}
    parts = {column.name: _pack_column(column, one_each) for column in ordered}
    for single, run in itertools.groupby(
        ordered, key=lambda column: parts[column.name] is not None
    ):
        together = list(run)
        # No character that a name may have comes before this one: it stays in its place.
        name = f"{together[-1].name}-"
        of_run = tuple(part for column in together if (part := parts[column.name]))
        if single and (len(of_run) > 1 or of_run[0].ids) and name not in names:
            made[name] = of_run
            together = [tf.feature_column.numeric_column(name, (sum(p.ids or 1 for p in of_run),))]
        found += together
    return found, made


def pack(
    features: Mapping[str, Any], made: Mapping[str, Sequence[PackedFeature]]
) -> dict[str, Any]:
    """Returns the features, `[batch]` or `[batch, 1]` each, with those that `pack_columns` made,
    `[batch, width]`."""
    return {**features, **{name: _join_parts(features, parts) for name, parts in made.items()}}


def select_needed(features: Mapping[str, Any], columns: Iterable[Any]) -> dict[str, Any]:
    """Returns the features that columns are made of: a layer of Keras looks at each it is given,
    and at all that this is made of, unless it is marked: of a wide table, for seconds."""
    wanted = tf.feature_column.make_parse_example_spec(list(columns))
    found = {name: x for name, x in features.items() if name in wanted}
    for x in found.values():
        # As Keras marks what it has found not to come from `keras.Input`: `uses_keras_history` of
        # keras/src/engine/base_layer_utils.py.
        x._keras_history_checked = True
    return found


def _join_parts(features: Mapping[str, Any], parts: Sequence[PackedFeature]) -> tf.Tensor:
    widths = np.array([part.ids or 1 for part in parts])
    is_number = np.array([part.ids is None for part in parts])
    made = []
    if is_number.any():
        made.append(_stack_parts(features, [part for part in parts if part.ids is None]))
    if not is_number.all():
        ids = _stack_parts(features, [part for part in parts if part.ids is not None])
        of_ids = widths[~is_number]
        values = np.concatenate([np.arange(width) for width in of_ids])
        repeated = tf.gather(ids, np.repeat(np.arange(len(of_ids)), of_ids), axis=1)
        made.append(tf.cast(tf.equal(repeated, tf.constant(values, ids.dtype)), tf.float32))
    if len(made) == 1:
        return made[0]
    # Numbers come first, then categories: back into the order of the parts.
    behind = np.argsort(np.repeat(~is_number, widths), kind="stable")
    return tf.gather(tf.concat(made, axis=1), np.argsort(behind), axis=1)


def _stack_parts(features: Mapping[str, Any], parts: Iterable[PackedFeature]) -> tf.Tensor:
    return packing.stack_tensors([flatten_values(features[part.feature]) for part in parts])


def add_weights(features: Mapping[str, Any], planned: Iterable[Planned]) -> dict[str, Any]:
    """Returns the features as the columns look for them, by `make_plain_name`: ids that have
    weights, and these, sparse and at the same places, because dense weights of 0 would be
    dropped."""
    found = dict(features)
    for feature in planned:
        if feature.weights is None:
            continue
        name, of = (
            feature_check.make_plain_name(feature.name),
            feature_check.make_plain_name(feature.weights.name),
        )
        places = tf.where(features[name] >= 0)
        shape = tf.shape(features[name], tf.int64)
        for key in (name, of):
            found[key] = tf.SparseTensor(places, tf.gather_nd(features[key], places), shape)
    return found


def select_part(features: Sequence[Planned], part: str) -> list[Planned]:
    """Returns the features of one part, `wide` or `deep`, of a model that has both."""
    return [one for one in features if part in one.feature.parts(of_ids=one.ids is not None)]


def name_scope(feature: str) -> str:
    """Returns the scope of a feature's variables within that of a layer of feature columns, which
    has no slashes: `_sanitize_column_name_for_variable_scope` of `feature_column_v2`."""
    return re.sub(r"[\\/]", "_", feature_check.make_plain_name(feature))


def rename_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the features as columns look for them."""
    return {feature_check.make_plain_name(name): x for name, x in features.items()}


def choose_embedding_width(feature: Planned) -> int:
    """Returns the width of the vectors of ids, 0 for one-hot."""
    return feature.feature.width(feature.ids or 0)


def name_table(feature: Planned) -> str:
    """Returns the name of the table that holds the vectors of ids."""
    return f"{feature.table or feature.name}_embedding"


def name_position_scope(feature: Planned) -> str:
    """Returns the scope of the vectors of places, within that of a layer of feature columns: that
    of the feature, whose table it is or not."""
    return name_scope(f"{feature.name}_embedding")


def list_tables(features: Iterable[Planned]) -> tuple[dict[str, int], set[str]]:
    """Returns the ids of tables, by the scope of their vectors, and the scopes of tables of which
    an example may have several ids, those of linear models too."""
    ids: dict[str, int] = {}
    lists: set[str] = set()
    for feature in features:
        if feature.ids:
            scope = name_scope(name_table(feature))
            ids[scope] = feature.ids
            lists |= set() if has_one_id(feature) else {scope, name_scope(feature.name)}
    return ids, lists


def flatten_values(x: tf.Tensor) -> tf.Tensor:
    """Returns one value a row, `[batch]` or `[batch, 1]`, as `[batch]`."""
    return x if x.shape.rank == 1 else tf.reshape(x, [-1])


def _pack_column(column: Any, one_each: Collection[str]) -> PackedFeature | None:
    """Returns what a column of a network is in a packed one; `None` if it cannot be packed.
    `one_each` are the features with one category in each row."""
    kind = type(column).__name__
    if kind == _NUMERIC and column.shape == (1,):
        return PackedFeature(column.key)
    if kind == _INDICATOR and column.categorical_column.name in one_each:
        return PackedFeature(column.categorical_column.key, column.categorical_column.num_buckets)
    return None


def _build_columns(feature: Planned) -> list[Any]:
    columns = tf.feature_column
    found: list[Any] = []
    name = feature_check.make_plain_name(feature.name)
    if feature.indicator:
        found.append(
            columns.numeric_column(
                feature_check.make_plain_name(feature.indicator), feature.indicator_shape or (1,)
            )
        )
    if feature.kind not in ("ids", "bag"):
        return [*found, columns.numeric_column(name, feature.shape or (1,))]
    ids = columns.categorical_column_with_identity(name, feature.ids)
    if feature.weights is not None:
        ids = embedding.weight_ids(ids, feature_check.make_plain_name(feature.weights.name))
    width = choose_embedding_width(feature)
    if not width:
        return [*found, columns.indicator_column(ids)]
    table = None if feature.table is None else name_scope(name_table(feature))
    combiner, one = feature.feature.combiner, has_one_id(feature)
    vectors = embedding.build_column(ids, width, combiner=combiner, table=table, one=one)
    places = positions.find_positions(feature)
    return [*found, vectors if places is None else positions.add_positions(vectors, places)]
