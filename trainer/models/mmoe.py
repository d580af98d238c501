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

from pipeline.config import model_config
from trainer.models.interactions import Network
from trainer.models.transforms import Transforms

v1 = tf.compat.v1


def mmoe(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Returns what has the `model_fn`."""
    return _Mmoe(params, model_config.settings("mmoe", params), transforms)


class _Mmoe(Network):
    def __init__(
        self, params: Mapping[str, Any], settings: model_config.Mmoe, transforms: Transforms
    ) -> None:
        super().__init__(params, settings, transforms)
        self._experts, self._tower_units = settings.experts, settings.tower_units

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        x, _ = self._inputs(features)
        with v1.variable_scope("mmoe"):
            experts = tf.stack(
                [
                    self._layers(x, self._settings.hidden_units, f"expert_{n}", training=training)
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
                y = self._layers(mixed, self._tower_units, f"tower_{n}", training=training)
                with v1.variable_scope(f"tower_{n}"):
                    logits.append(v1.layers.dense(y, width, name="logits"))
        return tf.concat(logits, axis=1)
