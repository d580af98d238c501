"""What exports, and evaluations for them, need of a model: looked at before it is trained, as it is
known once the graph of an export is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline import config, errors
from trainer.checkpoints import saving
from trainer.heads import heads
from trainer.input import grouping
from trainer.metrics import slice_metrics

_MODE = tf.estimator.ModeKeys.PREDICT
_GIVES = f"model_fn in mode {_MODE!r}"


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """The shape of each output of a model to export, and the variables it reads."""

    shapes: Mapping[str, tf.TensorShape]
    variables: Sequence[str]


def build_served(estimator: Any, receiver: Callable[[], Any]) -> ServedModel:
    """Returns the model that a `serving_input_fn` feeds. Builds its graph, but runs nothing.

    Raises `UsageError` if no such model could be exported.
    """
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = receiver().features
        try:
            spec = estimator.model_fn(features, None, _MODE, estimator.config)
            variables = saving.list_restored_names(spec)
        except errors.PipelineError:
            raise
        except Exception as error:
            tf.get_logger().exception("the model cannot be built for an export")
            raise errors.UsageError(
                f"{_GIVES}: {errors.describe(error)}; it must return an "
                "EstimatorSpec with predictions, since each run exports its model"
            ) from error
    shapes = {name: x.shape for name, x in spec.export_outputs[heads.SERVING].outputs.items()}
    for name, shape in shapes.items():
        if shape.rank == 0:
            raise errors.UsageError(
                f"{_GIVES}: {name!r} is one value for a whole batch; predictions must have a row "
                "for each example, by which an export is compared with Estimator.predict"
            )
    return ServedModel(shapes, variables)


def check_slices(job: config.Config, served: Mapping[str, tf.TensorShape]) -> None:
    """Raises `UsageError` if records cannot be evaluated by `eval.slices` or `eval.group` by what
    the model serves."""
    several = [(f"{label}/", f" of {label!r}") for label in job.labels]
    for prefix, of_label in several or [("", "")]:
        kind = next((one for one in slice_metrics.KINDS if prefix + one in served), None)
        if job.eval.slices and kind is None:
            raise errors.UsageError(
                f"eval.slices: {_GIVES} must predict 'class' or 'prediction'{of_label}, by which "
                f"slices are evaluated; it predicts {', '.join(served)}. Add one, or remove "
                "eval.slices"
            )
        if kind is not None and served[prefix + kind].rank not in (None, 1):
            raise errors.UsageError(
                f"eval.slices, eval.group: {_GIVES} predicts {prefix + kind!r} of shape "
                f"{served[prefix + kind]}; slices need one value for each example, of shape (None,)"
            )
        if job.eval.group is not None and not job.labels:
            chances = served.get("probabilities")
            if chances is None or not chances.is_compatible_with([None, 2]):
                raise errors.UsageError(
                    f"eval.group: {grouping.NEEDS}; {_GIVES} predicts {', '.join(served)}"
                )
