"""Models as networks of Keras with the parameters of a checkpoint.

That of a shipped model is `network` of its module in `trainer/models/`. It takes `params`, the
`KerasColumns` that make its features, and the `Parameters`; and returns a `tf.keras.Model` of
features by name, whose one output is what `model.name: keras` asks of its networks: probabilities,
or a number. Outputs by name are answers as they are.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.config import model_config
from pipeline.models import MODELS
from trainer import models
from trainer.checkpoints.parameters import Parameters
from trainer.heads import heads
from trainer.models import keras
from trainer.networks import keras_columns
from trainer.networks.keras_columns import KerasColumns


def check(model: model_config.Model) -> None:
    """Raises `UsageError` for a model of which no network can be made, with what to do."""
    if model.name in MODELS:
        return
    raise errors.UsageError(
        f"model.name {model.name!r}: is code of your own that builds a graph, of which no Keras "
        "model can be made. Write its network as a function that returns a tf.keras.Model, train "
        "that with model.name: keras, beginning with these parameters (model.warm_start with "
        "names); docs/migrate.md says how. Its export is a SavedModel that TensorFlow 2 serves"
    )


def build_network(model: model_config.Model, columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the network of a model, from features to what it is served from."""
    check(model)
    params = {**model_config.params(model), **columns.head_params}
    return models.load_module(model.name).network(params, columns, parameters)


def build_model(model: model_config.Model, columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns a `tf.keras.Model` from columns, as `KerasColumns.inputs` has them, to what the
    signature of an exported model answers."""
    inputs = keras_columns.build_inputs(columns.inputs)
    made = columns.build(inputs)
    inner = build_network(model, columns, parameters)
    if len(made) == len(inner.inputs) == 1:
        given = list(made.values())
    else:
        # A Keras model of the user's own gets its inputs by name in training, too.
        named = inner.input_names if model.name == "keras" else sorted(inner.input)
        made |= keras_columns.choose_packing(columns.features).pack(made)
        given = [made[name] for name in named]
    pairs = zip(given, inner.inputs, strict=True)
    given = [keras.reshape_to_fit(x, input_.shape) for x, input_ in pairs]
    output = inner(tf.nest.pack_sequence_as(inner.input, given))
    goals = columns.head_params.get(model_config.GOALS)
    if isinstance(output, dict):
        return tf.keras.Model(inputs, output, name="model")
    if goals is None:
        answer = keras.answer(output, regression=heads.is_regression(model.params))
        return tf.keras.Model(inputs, answer, name="model")
    answers = {
        f"{label}/{name}": x
        for (label, params), of_label in zip(goals.items(), output, strict=True)
        for name, x in keras.answer(of_label, regression=heads.is_regression(params)).items()
    }
    return tf.keras.Model(inputs, answers, name="model")
