"""DeepCTR's Estimators as a team would use them: a module that `model.name` names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from deepctr import estimator

columns = tf.feature_column


def model(params: Mapping[str, Any], config: tf.estimator.RunConfig, transforms: Any) -> Any:
    """Returns the Estimator `params["of"]` over the features of the job."""
    make = getattr(estimator, params["of"])
    linear, deep = [], []
    for feature in transforms.plan.features:
        if feature.kind == "ids":
            ids = columns.categorical_column_with_identity(feature.name, feature.ids)
            linear.append(ids)
            deep.append(columns.embedding_column(ids, 4))
        else:
            linear.append(columns.numeric_column(feature.name))
            deep.append(linear[-1])
    known = inspect.signature(make).parameters
    units = {"dnn_hidden_units": (8, 4)} if "dnn_hidden_units" in known else {}
    given = [linear, deep] if "linear_feature_columns" in known else [deep]
    return make(*given, config=config, **units)
