"""Networks of products of features, for ranking: `deepfm` and `dcn`, built from the features of the
config.

Their variables are called as those of the canned Estimators, whose parts they have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.config import model_config
from pipeline.config.feature_config import Embedding
from pipeline.records.feature_plan import Planned
from trainer.models import feature_columns, wide
from trainer.models.heads import Head
from trainer.models.transforms import Transforms

v1 = tf.compat.v1
_columns = v1.feature_column


def deepfm(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A linear model, the products of each two vectors of ids, and a network: Guo et al., DeepFM: A
    factorization-machine based neural network for CTR prediction, 2017."""
    return _DeepFm(params, model_config.settings("deepfm", params), transforms)


def dcn(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A network of cross layers beside one of fully connected layers: Wang et al., DCN V2, 2021."""
    return _Dcn(params, model_config.settings("dcn", params), transforms)


def of_one_width(planned: Sequence[Planned], factors: int) -> list[Planned]:
    """Returns features of which all that are ids have vectors of `factors` numbers.

    Raises `UsageError` for one that has others, or if no feature is ids.
    """
    if not any(feature.ids for feature in planned):
        raise errors.UsageError(
            "features: deepfm multiplies vectors of ids, and no feature is ids; use model.name: dnn"
        )
    return [_of_width(feature, factors) if feature.ids else feature for feature in planned]


def _of_width(planned: Planned, factors: int) -> Planned:
    wanted = planned.feature.embedding
    size = wanted.size if isinstance(wanted, Embedding) else wanted
    if size not in ("auto", factors):
        raise errors.UsageError(
            f"features.{planned.name}.embedding: is {size}, and deepfm needs vectors of one width, "
            f"model.params.factors: {factors}; leave it out, or change one of them"
        )
    same = wanted if isinstance(wanted, Embedding) else Embedding()
    same = same.model_copy(update={"size": factors})
    feature = planned.feature.model_copy(update={"embedding": same})
    return dataclasses.replace(planned, feature=feature)


class Network:
    """What all have: features as columns, fully connected layers, and the head."""

    def __init__(
        self, params: Mapping[str, Any], settings: model_config.HiddenLayers, transforms: Transforms
    ) -> None:
        self._head, self._settings = Head(params), settings
        self._planned: Sequence[Planned] = transforms.plan.features

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Returns the spec of a batch of features."""
        known = feature_columns.renamed(features)
        training = mode == tf.estimator.ModeKeys.TRAIN
        logits = self._logits(known, training=training)
        return self._head.create_estimator_spec(features, mode, logits, labels)

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        raise NotImplementedError

    def _inputs(self, features: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
        """Returns all features side by side, `[batch, width]`, in the order of the names of their
        columns, and those that are ids, by column."""
        columns, packed = feature_columns.packed(self._planned)
        known = feature_columns.with_weights(features, self._planned)
        known = feature_columns.needed(feature_columns.pack(known, packed), columns)
        by_column: dict[Any, Any] = {}
        with v1.variable_scope("dnn"), v1.variable_scope("input_from_feature_columns"):
            x = _columns.input_layer(known, columns, cols_to_output_tensors=by_column)
        return x, {c: vectors for c, vectors in by_column.items() if hasattr(c, "combiner")}

    def _hidden(self, x: Any, *, training: bool) -> Any:
        """Returns the last hidden layer."""
        return self._layers(x, self._settings.hidden_units, "dnn", training=training)

    def _layers(self, x: Any, units: Sequence[int], scope: str, *, training: bool) -> Any:
        """Returns the last of some fully connected layers on `x`."""
        activation = getattr(tf.nn, self._settings.activation)
        with v1.variable_scope(scope):
            for number, width in enumerate(units):
                x = v1.layers.dense(x, width, activation, name=f"hiddenlayer_{number}")
                if self._settings.dropout and training:
                    x = v1.layers.dropout(x, self._settings.dropout, training=True)
        return x


class _DeepFm(Network):
    def __init__(
        self, params: Mapping[str, Any], settings: model_config.DeepFm, transforms: Transforms
    ) -> None:
        super().__init__(params, settings, transforms)
        self._planned = of_one_width(self._planned, settings.factors)

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        with v1.variable_scope("linear"):
            first = wide.logits(features, self._planned, units=1)
        x, vectors = self._inputs(features)
        fields = tf.stack(list(vectors.values()), axis=1)
        products = tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(fields**2, axis=1)
        second = tf.reduce_sum(products, axis=1, keepdims=True) / 2
        hidden = self._hidden(x, training=training)
        with v1.variable_scope("dnn"):
            return first + second + v1.layers.dense(hidden, 1, name="logits")


class _Dcn(Network):
    def __init__(
        self, params: Mapping[str, Any], settings: model_config.Dcn, transforms: Transforms
    ) -> None:
        super().__init__(params, settings, transforms)
        self._cross_layers, self._rank = settings.cross_layers, settings.rank

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        x, _ = self._inputs(features)
        crossed, width = x, x.shape[-1]
        for number in range(self._cross_layers):
            with v1.variable_scope(f"cross/layer_{number}"):
                y = crossed
                if self._rank is not None:
                    y = v1.layers.dense(y, self._rank, use_bias=False, name="reduced")
                crossed = x * v1.layers.dense(y, width, name="full") + crossed
        both = tf.concat([crossed, self._hidden(x, training=training)], axis=1)
        return v1.layers.dense(both, self._head.logits_dimension, name="logits")
