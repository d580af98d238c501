"""Any `tf.keras` model, through `tf.keras.estimator.model_to_estimator`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.models.keras import Keras
from trainer import models, optimizers
from trainer.checkpoints.parameters import Parameters
from trainer.features.transforms import WEIGHT, Transforms
from trainer.heads import heads


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Returns the Estimator of the network that `params["network"]` names.

    It gets the features as a dict by name, or, if it has one input, the only feature. Weights it
    has loaded are those training begins with.
    """
    settings = Keras.of(params)
    # What `model_to_estimator` saves at once are the loaded weights, to start from.
    started = tempfile.TemporaryDirectory(prefix="keras-")
    # In a graph of its own; eager Keras models carry optimizers that Estimators refuse.
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(config.tf_random_seed)
        network = _build_network(settings)
        only = _find_only_feature(network, settings, transforms)
        network.compile(
            # Not one of Keras (docs/tensorflow-pitfalls.md#keras-optimizers).
            optimizer=optimizers.PerGraph(params["optimizer"]),
            loss=_choose_loss(network, settings),
            metrics=[] if settings.task == "regression" else ["accuracy"],
        )
        built = tf.keras.estimator.model_to_estimator(
            keras_model=network,
            config=config.replace(model_dir=started.name),
            checkpoint_format="saver",
        )
    return _Served(built, network, settings, only=only, started=started)


def network(params: Mapping[str, Any], columns: Any, parameters: Parameters) -> Any:
    """Returns the network with the parameters of a checkpoint."""
    settings = Keras.of(params)
    with tf.Graph().as_default():
        # Checkpoints have the names that variables get in a graph.
        names = [weight.op.name for weight in _build_network(settings).weights]
    made = _build_network(settings)
    parameters.fill(made, names)
    return made


class _Served:
    """The Estimator with features and signature as all models here have them."""

    def __init__(
        self,
        built: Any,
        network: Any,
        settings: Keras,
        *,
        only: str | None,
        started: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._built, self._settings, self._only = built, settings, only
        self._names = network.input_names
        self._shapes = [input_.shape for input_ in network.inputs]
        self._started = started  # removed when it is unused, or the process ends
        self._warm_start_settings = built._warm_start_settings

    def model_fn(self, features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        """Calls that of Keras."""
        weights = features.get(WEIGHT)
        features = {name: x for name, x in features.items() if name != WEIGHT}
        if self._only is not None:
            features = reshape_to_fit(features[self._only], self._shapes[0])
        else:
            named = zip(self._names, self._shapes, strict=True)
            features = {name: reshape_to_fit(features[name], shape) for name, shape in named}
        if weights is not None and mode != tf.estimator.ModeKeys.PREDICT:
            features = {"features": features, "sample_weights": weights}
        if labels is not None:
            # As wide as the output: Keras would broadcast one against the other.
            labels = labels[:, tf.newaxis]
            labels = tf.cast(labels, tf.float32) if self._settings.task == "regression" else labels
        spec = self._built.model_fn(features, labels, mode, config)
        output = next(iter(spec.predictions.values()))
        served = answer(output, regression=self._settings.task == "regression")
        if mode == tf.estimator.ModeKeys.PREDICT:
            return spec._replace(predictions=served, export_outputs=heads.export_outputs(served))
        return spec._replace(predictions=served)


def _build_network(settings: Keras) -> Any:
    function = models.load_attribute(settings.network, "model.params.network")
    network = function(**settings.arguments)
    if not isinstance(network, tf.keras.Model):
        raise errors.UsageError(
            f"model.params.network {settings.network!r}: must return a tf.keras.Model, "
            f"got {network!r}"
        )
    if not network.outputs:
        raise errors.UsageError(
            f"model.params.network {settings.network!r}: returned a model whose outputs are not "
            "known yet; begin it with a tf.keras.Input for each feature, and call layers on these"
        )
    for layer in network.layers if settings.batch_norm_momentum is not None else ():
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = settings.batch_norm_momentum
    width = network.outputs[0].shape[-1]
    wanted = _list_widths(settings)
    if len(network.outputs) != 1 or width not in wanted:
        raise errors.UsageError(
            f"model.params.network {settings.network!r}: must have one output of width "
            f"{' or '.join(map(str, wanted))}, has {len(network.outputs)} of width {width}"
        )
    return network


def _list_widths(settings: Keras) -> tuple[int, ...]:
    if settings.task == "regression":
        return (1,)
    return (1, 2) if settings.classes == 2 else (settings.classes,)


def _find_only_feature(network: Any, settings: Keras, transforms: Transforms) -> str | None:
    """Returns the feature of a network with one input, `None` if it takes several by name."""
    names = list(transforms.feature_names)
    inputs = list(network.input_names)
    if len(inputs) == 1 and len(names) == 1:
        return names[0]
    missing = [name for name in inputs if name not in names]
    if missing:
        raise errors.UsageError(
            f"model.params.network {settings.network!r}: has an input {missing[0]!r}"
            f"{errors.suggest(missing[0], names)}, the features are {', '.join(names)}"
        )
    return None


def _choose_loss(network: Any, settings: Keras) -> str:
    if settings.task == "regression":
        return "mean_squared_error"
    single = network.outputs[0].shape[-1] == 1
    return "binary_crossentropy" if single else "sparse_categorical_crossentropy"


def reshape_to_fit(x: Any, shape: tf.TensorShape) -> Any:
    """Returns a feature as an input of a shape takes it: one value a row may be `[batch, 1]`, as
    `fit` of Keras has it."""
    return x[:, tf.newaxis] if x.shape.rank == 1 and shape[1:] == [1] else x


def answer(output: tf.Tensor, *, regression: bool) -> dict[str, tf.Tensor]:
    """Returns what is served of a network's output, as `heads.answer` does."""
    output = tf.cast(output, tf.float32)
    if regression:
        return {"prediction": tf.squeeze(output, axis=1)}
    if output.shape[-1] == 1:
        output = tf.concat([1 - output, output], axis=1)
    return {"class": tf.argmax(output, axis=1), "probabilities": output}
