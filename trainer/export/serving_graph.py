"""The graph of an exported model: its input, and the variables it takes from a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import checkpoint_files
from trainer.export import feature_differences, parity_worker
from trainer.features.transforms import Transforms
from trainer.input import parsing

# An op that has the name of a variable renames it in this graph alone, where the checkpoint then
# lacks it: the ops of the input are named in a scope that no model has.
_SCOPE = "pipeline.serving_input"
_MODE = tf.estimator.ModeKeys.PREDICT


def put_in_scope(receiver: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a `serving_input_fn` with all of its ops in a name scope of their own."""

    def receive_in_scope() -> Any:
        with tf.name_scope(_SCOPE):
            return receiver()

    return receive_in_scope


def build_serving_input_fn(transforms: Transforms) -> Any:
    """Returns the receiver of the exported model: one tensor of raw values a column, or serialized
    Examples.

    A uint8 column is fed as `[batch]` strings of its bytes, row-major; of one that may be missing,
    what is missing as `Column.stands_for_missing`.
    """

    def receiver() -> Any:
        columns = transforms.serving_columns
        serialized, raw = parsing.build_serving_inputs(columns, transforms.serving_parts)
        decoded = {n: parsing.decode(t, columns[n]) for n, t in raw.items()}
        features = transforms.features(decoded)
        feature_differences.note(features)
        return tf.estimator.export.ServingInputReceiver(
            features,
            raw,
            {parity_worker.EXAMPLES: {parity_worker.EXAMPLES: serialized}},
        )

    return receiver


@contextlib.contextmanager
def refuse_untrained(
    estimator: Any, receiver: Callable[[], Any], checkpoint: str
) -> Iterator[None]:
    """Raises `ModelError` for an export that fails because it has variables that its checkpoint
    lacks, which the Estimator reports as a `ValueError`."""
    try:
        yield
    except ValueError as error:
        if lacking := isinstance(
            error.__context__, tf.errors.NotFoundError
        ) and _list_missing_variables(estimator, receiver, checkpoint):
            raise errors.ModelError(
                f"export of step {checkpoint_files.read_step(checkpoint)}: model_fn in mode "
                f"{_MODE!r} has variables that were not trained ({', '.join(lacking)}); its "
                "variables must have the same names in every mode. Nothing was published"
            ) from error
        raise


def _list_missing_variables(
    estimator: Any, receiver: Callable[[], Any], checkpoint: str
) -> list[str]:
    """Returns the names of what an export restores and its checkpoint does not have."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.train.create_global_step()
        spec = estimator.model_fn(receiver().features, None, _MODE, estimator.config)
        if spec.scaffold.saver is None:
            tf.compat.v1.train.Saver()
        restored = [op.inputs[1] for op in graph.get_operations() if op.type == "RestoreV2"]
        wanted = {name.decode() for names in restored for name in tf.get_static_value(names)}
    return sorted(wanted - {name for name, _ in tf.train.list_variables(checkpoint)})
