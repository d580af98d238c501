"""Makes the steps before a loss that is no number again, in one process, and says what broke.

The parameters are those of the last finite checkpoint, the records those that `divergence` has
kept. Of a single process and of synchronous modes these are the same steps; of asynchronous ones,
all updates that were kept in the order of their steps.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.records import epochs
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.checkpoints import shapes
from trainer.distribution import autotuner
from trainer.exactly_once import saved_counts
from trainer.input import epoch_order, parsing
from trainer.input.dataset import RecordDataset
from trainer.monitoring import divergence

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Repeated:
    """What came of it: the last loss, and the first tensor on the way to it that is not finite
    (name, how many of its values, of how many), or `None` if all are."""

    step: int
    loss: float
    first: tuple[str, int, int] | None


def repeat(run: RunFolder, records: RecordDataset, say: Say) -> Repeated:
    """Repeats the steps of a run that diverged; `say` gets a line for each.

    Raises `UsageError` if the run has not diverged, not all steps since the checkpoint were kept,
    or its model has other shapes now, and `DataError` if it has on other records.
    """
    kept = divergence.read(run)
    if not kept:
        diverged = storage.exists(storage.join(run.path, divergence.FOLDER))
        why = "none of its checkpoints was finite" if diverged else "its loss was always finite"
        raise errors.UsageError(f"run {run.name!r}: {why}; nothing to repeat")
    dropped = max(one.dropped for one in kept)
    if dropped:
        raise errors.UsageError(
            f"run {run.name!r}: steps {kept[0].from_step + 1} to {dropped} were not kept: there "
            "were too many. Save more often with train.save_steps, and train again"
        )
    job, blocks = epochs.set_run_length(run.read_config(), run), records.list_blocks("train")
    saved_counts.read_counts(kept[0].checkpoint, blocks)  # positions are of the records there were
    strategy = strategy_table.STRATEGIES[job.cluster.strategy]
    batches = merge_batches(kept, asynchronous=strategy.asynchronous)
    for one in kept:
        say(f"{one.task}: loss {one.loss:g} at step {one.batches[-1].step}")
    say(f"repeating {len(batches)} steps from {kept[0].checkpoint}")
    hook = _LookHook(batches, say)
    hooks = [shapes.ShapesHook(lambda: kept[0].checkpoint), hook]
    with tempfile.TemporaryDirectory() as scratch:
        _restore(kept[0].checkpoint, scratch)
        estimator = experiment.build_estimator(
            _configure_alone(job),
            RunFolder(scratch),
            topology.Task(topology.CHIEF, 0),
            transforms=records.transforms,
        )
        # As expected: it is what the hook has looked at.
        with contextlib.suppress(tf.estimator.NanLossDuringTrainingError):
            estimator.train(build_input_fn(records, batches), hooks=hooks)
    for line in _describe_non_finite(job, blocks, batches[-1]):
        say(line)
    return Repeated(batches[-1].step, hook.loss, hook.first)


def merge_batches(
    kept: list[divergence.Diverged], *, asynchronous: bool
) -> list[divergence.RecordedBatch]:
    """Puts the batches of all processes in the order of their steps. Those of one synchronous step
    become one batch: the mean over it is the mean of their means."""
    every = sorted((b for one in kept for b in one.batches), key=lambda batch: batch.step)
    if asynchronous:
        return every
    together = collections.defaultdict(list)
    for batch in every:
        together[batch.step].append(batch.positions)
    return [divergence.RecordedBatch(step, np.concatenate(p)) for step, p in together.items()]


def _configure_alone(job: config.Config) -> config.Config:
    """Returns the job for one process, with the learning rate that all had together."""
    optimizer = job.train.optimizer.model_copy(
        update={"learning_rate": topology.learning_rate(job), "scale": "none"}
    )
    train = job.train.model_copy(update={"optimizer": optimizer})
    return job.model_copy(update={"train": train, "cluster": config.Cluster()})


def _restore(checkpoint: str, scratch: str) -> None:
    """Makes a model directory of which training continues at the checkpoint."""
    copy = storage.join(scratch, checkpoint.rpartition("/")[2])
    for part in tf.io.gfile.glob(f"{checkpoint}.*"):
        tf.io.gfile.copy(part, copy + part[len(checkpoint) :])
    tf.compat.v1.train.update_checkpoint_state(scratch, copy)


def build_input_fn(records: RecordDataset, batches: list[divergence.RecordedBatch]) -> Any:
    """Returns an `input_fn` of the records of these batches, as training read them."""
    blocks, transforms = records.list_blocks("train"), records.transforms

    def read_batches() -> Iterator[list[bytes]]:
        for batch in batches:
            yield divergence.read_payloads(blocks, batch.positions)

    def split(payloads: tf.Tensor) -> Any:
        parsed = parsing.parse(payloads, transforms.columns)
        return transforms.examples(parsed, training=False, sampled=True)

    spec = tf.TensorSpec([None], tf.string)

    def input_fn() -> tf.data.Dataset:
        batches = tf.data.Dataset.from_generator(read_batches, output_signature=spec)
        return batches.map(split).with_options(autotuner.OPTIONS)

    return input_fn


class _LookHook(tf.compat.v1.train.SessionRunHook):
    """Tells the loss of each step; of the last one, looks at all that its loss is made of."""

    def __init__(self, batches: list[divergence.RecordedBatch], say: Say) -> None:
        self._batches, self._say = batches, say
        self._made = 0
        self.loss = math.nan
        self.first: tuple[str, int, int] | None = None

    def begin(self) -> None:
        """Finds the loss and what it is made of."""
        self._loss = tf.compat.v1.losses.get_losses()[-1]
        self._parts = _find_ancestors(self._loss)

    def before_run(self, run_context: Any) -> Any:
        """Fetches in the same run as the step: the next one has another batch."""
        last = self._made == len(self._batches) - 1
        fetches = [self._loss, self._parts if last else []]
        return tf.compat.v1.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Says what came of the step."""
        loss, values = run_values.results
        self.loss = float(loss)
        self._say(f"step {self._batches[self._made].step}: loss {self.loss:g}")
        self._made += 1
        for tensor, value in zip(self._parts, values, strict=False):
            broken = int(np.size(value) - np.isfinite(value).sum())
            if broken:
                self.first = (tensor.name, broken, int(np.size(value)))
                return


def _find_ancestors(loss: Any) -> list[Any]:
    """Returns the floating-point tensors that `loss` depends on, and itself, in an order in which
    each comes after what it is made of."""
    wanted, stack = {loss.op}, [loss.op]
    while stack:
        op = stack.pop()
        before = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        stack += before - wanted
        wanted |= before
    # Ops are numbered as they were made, inputs first; those in loops cannot be fetched.
    tensors = [t for op in loss.graph.get_operations() if op in wanted for t in op.outputs]
    return [t for t in tensors if t.dtype.is_floating and t.graph.is_fetchable(t)]


def _describe_non_finite(
    job: config.Config, blocks: epoch_order.Blocks, batch: divergence.RecordedBatch
) -> Iterator[str]:
    """Yields a line for each record of the batch with a value that is not finite."""
    payloads = divergence.read_payloads(blocks, batch.positions)
    parsed = parsing.parse(tf.constant(payloads), job.data.columns)
    for name, values in parsed.items():
        if not values.dtype.is_floating or job.data.columns[name].missing == "allow":
            continue
        fine = np.isfinite(values.numpy()).reshape(len(payloads), -1).all(axis=1)
        for row in np.flatnonzero(~fine).tolist():
            at = divergence.place(blocks, *batch.positions[row].tolist())
            yield f"{name} is not finite in record {at['record_in_shard']} of {at['shard']!r}"
