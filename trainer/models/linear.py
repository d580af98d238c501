"""`linear`: TensorFlow's canned linear Estimator, built from the features of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.checkpoints.parameters import Parameters
from trainer.features.transforms import Transforms
from trainer.networks.canned import Canned
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A weight for every number and every id."""
    return Canned(params, wide=transforms.plan.features)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built = KerasNetwork(params, columns, parameters)
    return built.model(built.linear(columns.planned))
