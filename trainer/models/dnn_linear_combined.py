"""`dnn_linear_combined`: wide & deep, TensorFlow's canned Estimator of both parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.checkpoints.parameters import Parameters
from trainer.features import feature_columns
from trainer.features.transforms import Transforms
from trainer.networks.canned import Canned
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Both, their logits added: Cheng et al., Wide & deep learning, 2016."""
    features = transforms.plan.features
    return Canned(
        params,
        deep=feature_columns.select_part(features, "deep"),
        wide=feature_columns.select_part(features, "wide"),
    )


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built = KerasNetwork(params, columns, parameters)
    deep = built.dnn(feature_columns.select_part(columns.planned, "deep"))
    wide = built.linear(feature_columns.select_part(columns.planned, "wide"))
    return built.model(tf.keras.layers.Add(name="deep_and_wide")([deep, wide]))
