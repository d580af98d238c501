"""Input functions: blocks of records, mixed, batched, and parsed a batch at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline import config, errors, manifest, storage, topology
from trainer import features, order

InputFn = Callable[[], tf.data.Dataset]

_READ_BUFFER = 256 << 10  # bytes
_OPTIONS = tf.data.Options()
_OPTIONS.deterministic = True
# The autotuner's thread sleeps for up to a minute between looks, and closing a session of a
# cluster waits for it: runs hung that long at their end.
_OPTIONS.autotune.enabled = False

# Records that travel together between reading and batching: fewer elements, the same mixing.
_SLICE = 8


class Records:
    """The records of a job: where they lie and how to read them."""

    def __init__(self, job: config.Config, folder: str, contents: manifest.Manifest) -> None:
        self.job = job
        self.folder = folder
        self.manifest = contents

    def has(self, split: str) -> bool:
        """True if there is at least one record of the split."""
        return split in self.manifest.splits and self.manifest.splits[split].records > 0

    def blocks(self, split: str) -> order.Blocks:
        """Returns the seekable blocks of a split. Raises `DataError` if it has no records."""
        found = self.manifest.split(split)
        paths = [storage.join(self.folder, shard.path) for shard in found.shards]
        return order.blocks_of(found, self.manifest.block_records, paths)

    def train_input_fn(self, rank: int, num_readers: int, records_read: int) -> InputFn:
        """Returns the endless training input of one reader.

        It goes on after the first `records_read` records, counted over all readers. Batches are
        full and of one size, across the ends of epochs too: synchronous training hangs on any
        other (traps A24). Raises `UsageError` if there is not a block for each reader, which
        would wait for ever.
        """
        train, columns, label = self.job.train, self.job.data.columns, self.job.data.label
        batch_size = topology.batch_per_replica(self.job)
        blocks = self.blocks("train")
        if len(blocks.records) < num_readers:
            raise errors.UsageError(
                f"{num_readers} processes train, but there are only {len(blocks.records)} blocks "
                "of records to share; use fewer, or a smaller data.block_records"
            )
        start = order.start_after(blocks, records_read, train.seed, rank, num_readers)

        def input_fn() -> tf.data.Dataset:
            return (
                _block_stream(blocks, train.seed, rank, num_readers, start)
                .interleave(
                    _block_reader(blocks.paths), cycle_length=train.open_blocks, block_length=1
                )
                .rebatch(batch_size, drop_remainder=True)
                .map(lambda batch: _split_label(features.parse(batch, columns), label))
                .prefetch(2)
                .with_options(_OPTIONS)
            )

        return input_fn

    def eval_input_fn(self, split: str) -> InputFn:
        """Returns one pass over a split: each record once, the last batch as short as it is.

        For several evaluating replicas the batches are a multiple of them, and equal but for one
        record: one replica without a batch would end the evaluation of all (traps A24). Raises
        `UsageError` if there is not a record for each.
        """
        columns, label = self.job.data.columns, self.job.data.label
        blocks = self.blocks(split)
        paths = list(blocks.paths)
        replicas = topology.evaluating_replicas(self.job.cluster)
        sizes = even_batches(blocks.total_records, self.job.eval.batch_size, replicas)
        if not sizes[-1]:
            raise errors.UsageError(
                f"{replicas} replicas evaluate, but split {split!r} has only "
                f"{blocks.total_records} records; use cluster.eval_strategy=none"
            )

        def input_fn() -> tf.data.Dataset:
            return (
                tf.data.TFRecordDataset(paths, buffer_size=_READ_BUFFER)
                .batch(self.job.eval.batch_size)
                .apply(lambda d: d if replicas == 1 else d.rebatch(sizes))
                .map(lambda batch: _split_label(features.parse(batch, columns), label))
                .prefetch(2)
                .with_options(_OPTIONS)
            )

        return input_fn


def even_batches(records: int, largest: int, replicas: int) -> list[int]:
    """Returns sizes of batches that hold all records: a multiple of `replicas`, as equal as can
    be, the larger ones first."""
    count = -(-records // (largest * replicas)) * replicas
    return [records // count + (n < records % count) for n in range(count)]


def _split_label(parsed: features.Tensors, label: str) -> tuple[features.Tensors, tf.Tensor]:
    rest = dict(parsed)
    return rest, rest.pop(label)


def _block_stream(
    blocks: order.Blocks, seed: int, rank: int, num_readers: int, start: order.Start
) -> tf.data.Dataset:
    """Yields this reader's blocks, endlessly, as `[5]` int64 (shard, offset, records, 2 seeds)."""

    def plan(epoch: np.ndarray) -> np.ndarray:
        """Lays out one epoch; runs in Python once an epoch."""
        whole = order.epoch_order(len(blocks.records), seed, int(epoch))
        mine = order.dealt(whole, rank, num_readers)
        if epoch == start.epoch:
            mine = mine[start.blocks :]
        shuffle = np.full_like(mine, seed + int(epoch))
        columns = (blocks.shard[mine], blocks.offset[mine], blocks.records[mine], shuffle, mine)
        return np.stack(columns, axis=1)

    def rows(epoch: tf.Tensor) -> tf.data.Dataset:
        laid_out = tf.numpy_function(plan, [epoch], tf.int64, stateful=False)
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(laid_out, [None, 5]))

    return tf.data.Dataset.range(start.epoch, np.iinfo(np.int64).max).flat_map(rows)


def _block_reader(paths: tuple[str, ...]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Returns a function from a block's row to its records, permuted, in slices of strings."""

    def read(row: tf.Tensor) -> tf.data.Dataset:
        path = tf.gather(tf.constant(paths), row[0])
        block = _records_at(path, row[1]).take(row[2]).batch(tf.int64.max)
        return block.map(lambda r: tf.random.experimental.stateless_shuffle(r, row[3:])).rebatch(
            _SLICE
        )

    return read


def _records_at(path: tf.Tensor, offset: tf.Tensor) -> tf.data.Dataset:
    """Reads a TFRecord file from a byte offset on, which `TFRecordDataset` cannot.

    The op beneath it can since TensorFlow 2.13; uncompressed files only (traps B3).
    """
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path],
        compression_type="",
        buffer_size=_READ_BUFFER,
        byte_offsets=[offset],
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
