"""A checkpoint evaluated in one pass: the model's own metrics, and what it predicts of each record.

The graph of an evaluation makes both of the same batch, so that each record is read, parsed and put
through the model once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.console import work
from trainer.checkpoints import shapes
from trainer.distribution import replicas
from trainer.heads import heads
from trainer.input.dataset import RecordDataset
from trainer.metrics import slice_metrics
from trainer.metrics.slice_metrics import SliceResult

# A collection of a graph: for each replica its index and tensors. Not named by a text, which would
# have it written with the graph (`Graph.get_all_collection_keys`).
_PREDICTED = (__name__,)
# What a model predicts, and the probability of the label, in place of those of all of many classes.
_CLASS, _CHANCES, _NUMBER, _LIKELIHOOD = "class", "probabilities", "prediction", "likelihood"
# By one of these sets of predictions a model can be evaluated.
_ENOUGH = ({_CLASS, _CHANCES}, {_CLASS, _LIKELIHOOD}, {_NUMBER})


def watch(predictions: Any, labels: Any, extras: Mapping[str, tf.Tensor]) -> None:
    """Keeps what one replica predicts of a batch for `SliceHook`, with its labels and what slices
    are made by."""
    served = heads.rename_predictions(predictions)
    known = (_CLASS, _CHANCES, _NUMBER)
    given = served.items() if isinstance(served, Mapping) else ()
    found = {name: values for name, values in given if name.rpartition("/")[2] in known}
    by_label = slice_metrics.name_labels(labels)
    for name, label in by_label.items():
        prefix = name.removeprefix(slice_metrics.LABEL).removeprefix("/")
        prefix += "/" if prefix else ""
        if _is_of_many(found.get(prefix + _CHANCES), label):
            found[prefix + _LIKELIHOOD] = _look_up_likelihood(found.pop(prefix + _CHANCES), label)
    entry = replicas.get_index(), {**found, **by_label, **extras}
    tf.compat.v1.add_to_collection(_PREDICTED, entry)


def _is_of_many(chances: Any, label: Any) -> bool:
    """Tells if there are probabilities of more than two classes, which a label is the number of."""
    if (
        not isinstance(label, tf.Tensor)
        or chances is None
        or chances.shape.rank != 2
        or chances.shape[1] in (None, 2)
    ):
        return False
    return bool(label.dtype.is_integer and label.shape.rank == 1)


def _look_up_likelihood(chances: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    number = tf.clip_by_value(tf.cast(label, tf.int64), 0, chances.shape[1] - 1)
    return tf.gather(chances, number, batch_dims=1)


class SliceHook(tf.compat.v1.train.SessionRunHook):
    """Evaluates what is predicted while the metrics of an evaluation are updated; of one
    evaluation after the other."""

    def __init__(self, records: RecordDataset, slices: Sequence[str], *, every: int = 1) -> None:
        """The input must have read the columns of `slices`; of `every` see `SliceEvaluation`."""
        self._records, self._slices, self._every = records, slices, every
        self._by_label: dict[str | None, slice_metrics.SliceEvaluation] = {}
        self._fetched: list[dict[str, tf.Tensor]] = []
        self._sizes: list[tf.Tensor] = []

    def begin(self) -> None:
        """Finds the tensors, of each replica in the order of the batches."""
        labels = list(self._records.job.labels)
        found = tf.compat.v1.get_collection(_PREDICTED)
        of_each = [tensors for _, tensors in sorted(found, key=lambda entry: entry[0])]
        is_enough = all(_is_enough(tensors, labels) for tensors in of_each)
        self._fetched = of_each if is_enough else []
        self._by_label = (
            slice_metrics.build_evaluations(self._records, self._slices, every=self._every)
            if is_enough
            else {}
        )
        label = next(iter(slice_metrics.name_labels(dict.fromkeys(labels) or None)))
        self._sizes = [tf.shape(tensors[label])[0] for tensors in of_each]

    def before_run(self, run_context: Any) -> Any:
        """Asks for the predictions of the batch that the metrics are updated by."""
        return tf.compat.v1.train.SessionRunArgs((self._fetched, self._sizes))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds them to what is evaluated, and counts the records by `work.advance`."""
        batches, sizes = run_values.results
        for batch in batches:
            for one in self._by_label.values():
                one.add(batch)
        work.advance(int(sum(sizes)))

    def get_results(self) -> dict[str | None, SliceResult] | None:
        """Returns the last evaluation, by each label; `None` if its graph does not predict
        what the model serves."""
        return {label: one.result() for label, one in self._by_label.items()} or None


def predicts_enough(labels: Sequence[str]) -> bool:
    """Tells if the graph of an evaluation that has been built predicts what slices need."""
    found = tf.compat.v1.get_collection(_PREDICTED)
    return bool(found) and all(_is_enough(tensors, labels) for _, tensors in found)


def _is_enough(tensors: Mapping[str, Any], labels: Sequence[str]) -> bool:
    return all(
        any({prefix + name for name in names} <= tensors.keys() for names in _ENOUGH)
        and all(
            _is_of_kind(tensors[prefix + name], tensors[label])
            for name in (_CLASS, _NUMBER)
            if prefix + name in tensors
        )
        for prefix, label in _list_parts(labels)
    )


def _list_parts(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Returns what predictions of each label begin with, and the name of its values."""
    several = [(f"{label}/", f"{slice_metrics.LABEL}/{label}") for label in labels]
    return several or [("", slice_metrics.LABEL)]


def _is_of_kind(values: Any, label: Any) -> bool:
    """True for one value a record that can be compared with its label: not for the classes of each
    pixel, or names of classes by numbers, as a model of the user's own may have them."""
    if any(one.shape.rank not in (None, 1) for one in (values, label)):
        return False
    return bool((values.dtype == tf.string) == (label.dtype == tf.string))


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """A checkpoint on a split: the model's own metrics, and the result by each label; `None` if
    the graph of an evaluation does not predict what the model serves."""

    metrics: dict[str, float]
    results: dict[str | None, SliceResult] | None


def evaluate(
    records: RecordDataset,
    estimator: Any,
    checkpoint: str,
    *,
    split: str,
    slices: Sequence[str],
    name: str,
) -> Evaluated:
    """Returns a checkpoint evaluated as `Estimator.evaluate` does, which writes its summaries under
    `name`, and evaluated by slices in the same pass. Raises `shapes.OtherShapes` if the checkpoint
    is of another model."""
    hook = SliceHook(records, slices)
    found = estimator.evaluate(
        records.build_eval_input_fn(split, slices),
        hooks=[shapes.ShapesHook(lambda: checkpoint), hook],
        checkpoint_path=checkpoint,
        name=name,
    )
    return Evaluated({of: float(value) for of, value in found.items()}, hook.get_results())
