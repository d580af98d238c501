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
from trainer.distribution import replicas
from trainer.heads import heads
from trainer.input.dataset import RecordDataset
from trainer.metrics import slice_metrics
from trainer.metrics.slice_metrics import SliceResult

# A collection of a graph: for each replica its index and tensors. Not named by a text, which would
# have it written with the graph (`Graph.get_all_collection_keys`).
_PREDICTED = (__name__,)
# By one of these sets of predictions a model can be evaluated.
_ENOUGH = ({"class", "probabilities"}, {"prediction"})


def watch(predictions: Any, labels: Any, extras: Mapping[str, tf.Tensor]) -> None:
    """Keeps what one replica predicts of a batch for `SliceHook`, with its labels and what slices
    are made by."""
    served = heads.rename_predictions(predictions)
    known = set().union(*_ENOUGH)
    given = served.items() if isinstance(served, Mapping) else ()
    found = {name: values for name, values in given if name.rpartition("/")[2] in known}
    entry = replicas.index(), {**found, **slice_metrics.of_labels(labels), **extras}
    tf.compat.v1.add_to_collection(_PREDICTED, entry)


class SliceHook(tf.compat.v1.train.SessionRunHook):
    """Evaluates what is predicted while the metrics of an evaluation are updated; of one
    evaluation after the other."""

    def __init__(self, records: RecordDataset, slices: Sequence[str]) -> None:
        """The input must have read the columns of `slices`."""
        self._records, self._slices = records, slices
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
        self._by_label = slice_metrics.evaluations(self._records, self._slices) if is_enough else {}
        label = next(iter(slice_metrics.of_labels(dict.fromkeys(labels) or None)))
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

    def results(self) -> dict[str | None, SliceResult] | None:
        """Returns the last evaluation, by each label; `None` if its graph does not predict
        what the model serves."""
        return {label: one.result() for label, one in self._by_label.items()} or None


def _is_enough(tensors: Mapping[str, Any], labels: Sequence[str]) -> bool:
    return all(
        any({prefix + name for name in names} <= tensors.keys() for names in _ENOUGH)
        for prefix in [f"{label}/" for label in labels] or [""]
    )


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
    `name`, and evaluated by slices in the same pass."""
    hook = SliceHook(records, slices)
    found = estimator.evaluate(
        records.eval_input_fn(split, slices),
        hooks=[hook],
        checkpoint_path=checkpoint,
        name=name,
    )
    return Evaluated({of: float(value) for of, value in found.items()}, hook.results())
