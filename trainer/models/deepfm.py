"""`deepfm`: products of each two vectors of ids, built from the features of the config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.config.feature_config import Embedding
from pipeline.models.deepfm import DeepFm
from pipeline.records.feature_plan import Planned
from trainer.checkpoints.parameters import Parameters
from trainer.features.transforms import Transforms
from trainer.networks import keras_network, wide
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork
from trainer.networks.network import Network

_layers = tf.keras.layers
v1 = tf.compat.v1


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A linear model, the products of each two vectors of ids, and a network: Guo et al., DeepFM: A
    factorization-machine based neural network for CTR prediction, 2017."""
    return _DeepFm(params, DeepFm.of(params), transforms)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built, settings = KerasNetwork(params, columns, parameters), DeepFm.of(params)
    planned = _set_one_width(columns.planned, settings.factors)
    inputs = built.inputs(planned)
    vectors = [inputs[f"{one.name}_embedding"] for one in planned if one.ids]
    fields = tf.stack(vectors, axis=1)
    products = tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(tf.square(fields), axis=1)
    second = tf.reduce_sum(products, axis=1, keepdims=True) / 2
    hidden = built.build_hidden(keras_network.join_features(inputs), settings)
    deep = built.logits(hidden, "dnn/logits")
    return built.model(_layers.Add(name="added")([built.linear(planned), second, deep]))


class _DeepFm(Network):
    def __init__(self, params: Mapping[str, Any], settings: DeepFm, transforms: Transforms) -> None:
        super().__init__(params, settings, transforms)
        self._planned = _set_one_width(self._planned, settings.factors)

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        with v1.variable_scope("linear"):
            first = wide.logits(features, self._planned, units=1)
        x, vectors = self._build_inputs(features)
        fields = tf.stack(list(vectors.values()), axis=1)
        products = tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(fields**2, axis=1)
        second = tf.reduce_sum(products, axis=1, keepdims=True) / 2
        hidden = self._build_hidden(x, training=training)
        with v1.variable_scope("dnn"):
            return first + second + v1.layers.dense(hidden, 1, name="logits")


def _set_one_width(planned: Sequence[Planned], factors: int) -> list[Planned]:
    """Returns features of which all that are ids have vectors of `factors` numbers."""
    return [_set_width(feature, factors) if feature.ids else feature for feature in planned]


def _set_width(planned: Planned, factors: int) -> Planned:
    wanted = planned.feature.embedding
    same = wanted if isinstance(wanted, Embedding) else Embedding()
    same = same.model_copy(update={"size": factors})
    feature = planned.feature.model_copy(update={"embedding": same})
    return dataclasses.replace(planned, feature=feature)
