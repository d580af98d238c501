"""`dcn`: products of features by cross layers, built from the features of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.models.dcn import Dcn
from trainer.checkpoints.parameters import Parameters
from trainer.features.transforms import Transforms
from trainer.networks import keras_network
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork
from trainer.networks.network import Network

_layers = tf.keras.layers
v1 = tf.compat.v1


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A network of cross layers beside one of fully connected layers: Wang et al., DCN V2, 2021."""
    return _Dcn(params, Dcn.of(params), transforms)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built, settings = KerasNetwork(params, columns, parameters), Dcn.of(params)
    x = keras_network.join_features(built.inputs(columns.planned))
    crossed = x
    for number in range(settings.cross_layers):
        y, scope = crossed, f"cross/layer_{number}"
        if settings.rank is not None:
            reduced = _layers.Dense(settings.rank, use_bias=False, name=f"reduced{number}")
            y = built.load_layer(reduced, y, f"{scope}/reduced")
        full = _layers.Dense(x.shape[-1], name=f"full{number}")
        crossed = x * built.load_layer(full, y, f"{scope}/full") + crossed
    both = _layers.Concatenate(name="crossed_and_deep")([crossed, built.build_hidden(x, settings)])
    return built.model(built.logits(both, "logits"))


class _Dcn(Network):
    def __init__(self, params: Mapping[str, Any], settings: Dcn, transforms: Transforms) -> None:
        super().__init__(params, settings, transforms)
        self._cross_layers, self._rank = settings.cross_layers, settings.rank

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        x, _ = self._build_inputs(features)
        crossed, width = x, x.shape[-1]
        for number in range(self._cross_layers):
            with v1.variable_scope(f"cross/layer_{number}"):
                y = crossed
                if self._rank is not None:
                    y = v1.layers.dense(y, self._rank, use_bias=False, name="reduced")
                crossed = x * v1.layers.dense(y, width, name="full") + crossed
        both = tf.concat([crossed, self._build_hidden(x, training=training)], axis=1)
        return v1.layers.dense(both, self._head.logits_dimension, name="logits")
