"""A network for several labels that share what is alike in them: `mmoe`, multi-gate mixture of
experts, built from the features of the config.

Ma et al., Modeling task relationships in multi-task learning with multi-gate mixture-of-experts,
2018. Experts are networks of fully connected layers on all features. Each label has a gate, which
weighs the experts for each example, and a tower of layers on their weighted sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.models.mmoe import Mmoe
from trainer.checkpoints.parameters import Parameters
from trainer.features.transforms import Transforms
from trainer.heads import heads
from trainer.networks import keras_network
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork
from trainer.networks.network import Network

_layers = tf.keras.layers
v1 = tf.compat.v1


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Returns what has the `model_fn`."""
    return _Mmoe(params, Mmoe.of(params), transforms)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built, settings = KerasNetwork(params, columns, parameters), Mmoe.of(params)
    x = keras_network.join_features(built.inputs(columns.planned))
    experts = [
        built.stack(x, settings.hidden_units, settings, scope=f"mmoe/expert_{n}")
        for n in range(settings.experts)
    ]
    stacked, logits = tf.stack(experts, axis=1), []
    for n, width in enumerate(heads.Head(params).widths):
        gate = _layers.Dense(settings.experts, "softmax", use_bias=False, name=f"gate{n}")
        weights = built.load_layer(gate, x, f"mmoe/gate_{n}")
        mixed = tf.reduce_sum(stacked * weights[:, :, tf.newaxis], axis=1)
        y = built.stack(mixed, settings.tower_units, settings, scope=f"mmoe/tower_{n}")
        last = _layers.Dense(width, name=f"logits{n}")
        logits.append(built.load_layer(last, y, f"mmoe/tower_{n}/logits"))
    return built.model(tf.concat(logits, axis=1) if len(logits) > 1 else logits[0])


class _Mmoe(Network):
    def __init__(self, params: Mapping[str, Any], settings: Mmoe, transforms: Transforms) -> None:
        super().__init__(params, settings, transforms)
        self._experts, self._tower_units = settings.experts, settings.tower_units

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        x, _ = self._build_inputs(features)
        with v1.variable_scope("mmoe"):
            experts = tf.stack(
                [
                    self._build_layers(
                        x, self._settings.hidden_units, f"expert_{n}", training=training
                    )
                    for n in range(self._experts)
                ],
                axis=1,
            )
            logits = []
            for n, width in enumerate(self._head.widths):
                gate = v1.layers.dense(
                    x, self._experts, tf.nn.softmax, use_bias=False, name=f"gate_{n}"
                )
                mixed = tf.reduce_sum(experts * gate[:, :, tf.newaxis], axis=1)
                y = self._build_layers(mixed, self._tower_units, f"tower_{n}", training=training)
                with v1.variable_scope(f"tower_{n}"):
                    logits.append(v1.layers.dense(y, width, name="logits"))
        return tf.concat(logits, axis=1)
