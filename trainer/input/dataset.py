"""Input functions: blocks of records, mixed, parsed many at a time, and batched."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.records import manifest, quarantine, tfrecord
from trainer.distribution import autotuner
from trainer.features.transforms import Transforms
from trainer.input import (
    epoch_order,
    grouping,
    parallel,
    parsing,
    preparation,
    ready_times,
    slicing,
    window_feed,
)
from trainer.input.window_feed import Feed

InputFn = Callable[[], tf.data.Dataset]

_READ_BUFFER = 256 << 10  # bytes
# Of gs:// a block is one request, up to so many bytes; so many are under way at once, each of which
# takes 20 ms or more. Other storages read ahead by themselves.
_LARGEST_REQUEST, _AT_ONCE = 8 << 20, 16
_LARGEST_SHARD = 1 << 44  # bytes; an object has at most 5 TiB
# Records that are picked out of a window and prepared at a time: so many make both cheap, up to so
# many bytes.
_PICKED, _PICKED_BYTES = 2048, 16 << 20
_OF_FEATURE = 8  # bytes at least of a feature in a record, beside its name and value


class RecordDataset:
    """The records of a job: where they lie and how to read them."""

    def __init__(
        self,
        job: config.Config,
        folder: str,
        contents: manifest.Manifest,
        *,
        excluded: quarantine.Excluded | None = None,
    ) -> None:
        self.job = job
        self.folder = folder
        self.manifest = contents
        # Blocks that cannot be read.
        self.excluded = excluded or {}
        self.transforms = Transforms(job, contents)

    def has(self, split: str) -> bool:
        """True if there is at least one record of the split."""
        return split in self.manifest.splits and self.manifest.splits[split].records > 0

    @property
    def left_out(self) -> dict[str, dict[str, int]]:
        """How many records there were more, by split and cause; see `quarantine.count_left_out`."""
        return quarantine.count_left_out(self.excluded, self.manifest)

    def identify(self, split: str) -> str:
        """Names the records of a split that are read: equal for the same bytes only. Raises
        `DataError` if it has none."""
        left_out = sorted(self.excluded.get(split, ()))
        shards = [
            [shard.crc32c, shard.bytes, shard.records]
            for shard in self.manifest.split(split).shards
        ]
        return config.digest({"shards": shards, "left_out": left_out})[:16]

    def list_blocks(self, split: str) -> epoch_order.Blocks:
        """Returns the seekable blocks of a split. Raises `DataError` if it has no records."""
        excluded = self.excluded.get(split, frozenset())
        return epoch_order.list_blocks(self.manifest, split, self.folder, excluded=excluded)

    def build_train_input_fn(self, feed: Feed, num_readers: int, *, timed: bool = False) -> InputFn:
        """Returns the endless training input of one reader, of the block ranges that `feed` hands
        out.

        Batches are full and of one size, across the ends of epochs too: synchronous training hangs
        on any other (docs/tensorflow-pitfalls.md#uneven-batches). Each record comes with what the
        ledger asks for: the index of its block, its own in that, and its place in the order of
        reading. If `timed` batches come with when they were ready, as `ready_times` adds it. Raises
        `UsageError` if there is not a block for each reader, which would wait for ever.
        """
        batch_size = topology.batch_per_replica(self.job)
        blocks = self.list_blocks("train")
        at_once = parallel.count_calls(os.environ)
        random = parallel.are_random(self.transforms.plan.features)
        there = len(epoch_order.list_readable(blocks))
        if there < num_readers:
            raise errors.UsageError(
                f"{num_readers} processes train, but there are only {there} blocks of records to "
                "share; use fewer, or a smaller data.block_records"
            )

        prepared = preparation.build(self.transforms)
        kept = self._are_kept(blocks, prepared, num_readers)
        picked = _count_picked(blocks, prepared, self.transforms)

        def input_fn() -> tf.data.Dataset:
            windows = tf.data.Dataset.from_generator(
                feed.read_windows,
                args=(feed.number_pipeline(),),
                output_signature=window_feed.WINDOW,
            )
            if kept:
                made = _prepare_all(blocks, prepared.before, picked, calls=at_once)
                windows = _read_from_memory(windows, blocks, made)
            else:
                windows = windows.flat_map(_build_window_reader(blocks))
            # A single reader may prefetch a window, as no other reader waits for its records.
            windows = windows.prefetch(1) if num_readers == 1 else windows
            mixed = windows.flat_map(_build_mixing(picked))
            if not kept:
                mixed = mixed.map(
                    lambda records, marks: (prepared.before(records), marks),
                    num_parallel_calls=at_once,
                )
            batches = mixed.rebatch(batch_size, drop_remainder=True).map(
                prepared.after,
                num_parallel_calls=None
                if random
                else parallel.limit_calls(at_once, batch_size * prepared.size),
            )
            batches = ready_times.add(batches) if timed else batches
            return batches.prefetch(2).with_options(autotuner.OPTIONS)

        return input_fn

    def _are_kept(
        self, blocks: epoch_order.Blocks, prepared: preparation.Preparation, num_readers: int
    ) -> bool:
        """True if a reader keeps what is prepared of all blocks, of which it has a share to read in
        each epoch: it saves no time unless it reads as many twice."""
        train = self.job.train
        examples = topology.examples_per_step(self.job) * (train.planned_steps or 0)
        twice = examples >= 2 * num_readers * int(blocks.due.sum())
        return twice and _estimate_kept_bytes(blocks, prepared) <= train.cache_bytes

    def build_eval_input_fn(self, split: str, slices: Sequence[str] | None = None) -> InputFn:
        """Returns one pass over a split: each record once, the last batch as short as it is. With
        the features come those of `slicing.build_extras`, which are not for the model; `slices`
        are those of `eval.slices` unless given.

        For several evaluating replicas the batches are a multiple of them, and equal but for one
        record: one replica without a batch would end the evaluation of all
        (docs/tensorflow-pitfalls.md#uneven-batches). Raises `UsageError` if there is not a record
        for each.
        """
        transforms = self.transforms
        blocks = self.list_blocks(split)
        rows = epoch_order.list_readable(blocks)
        total = int(rows[:, 2].sum())
        replicas = topology.count_evaluating_replicas(self.job.cluster)
        sizes = split_evenly(total, self.job.eval.batch_size, replicas)
        if not sizes[-1]:
            raise errors.UsageError(
                f"{replicas} replicas evaluate, but split {split!r} has only "
                f"{total} records; use cluster.eval_strategy=none"
            )

        grouping.check(self.job, split, total)
        by = self.job.eval.slices if slices is None else slices
        extra = slicing.list_columns(self.job, by)

        def build_examples(batch: tf.Tensor) -> Any:
            # In one function: the graph of each costs seconds where there are many columns.
            values = parsing.parse(batch, {**transforms.columns, **extra})
            read = {name: values[name] for name in transforms.columns}
            read |= slicing.build_extras(values, self.job, transforms, slices=by)
            return transforms.pack(read, training=False)

        size = self.job.eval.batch_size * parsing.count_bytes(transforms.columns)
        calls = parallel.limit_calls(parallel.count_calls(os.environ), size)

        def input_fn() -> tf.data.Dataset:
            return (
                self.read_serialized(split)
                .rebatch(self.job.eval.batch_size if replicas == 1 else sizes)
                .map(build_examples, num_parallel_calls=calls)
                .prefetch(2)
            )

        return input_fn

    def read_some(self, split: str, count: int) -> Iterator[bytes]:
        """Yields about `count` records of all the split, of each block the first; all, if there are
        fewer."""
        blocks = self.list_blocks(split)
        readable = epoch_order.list_readable(blocks)
        chosen = readable[:: max(1, len(readable) // count)][:count]
        each = -(-count // len(chosen))
        for shard, offset, held in chosen:
            yield from tfrecord.read(blocks.paths[shard], int(offset), min(each, int(held)))

    def read_serialized(self, split: str) -> tf.data.Dataset:
        """Returns the records of a split in order, those of a block at a time, without what has
        been left out: `[records]` strings."""
        blocks = self.list_blocks(split)
        rows = tf.data.Dataset.from_tensor_slices(epoch_order.list_readable(blocks))
        return _read_blocks(rows, _build_block_reader(blocks)).with_options(autotuner.OPTIONS)


def _estimate_kept_bytes(blocks: epoch_order.Blocks, prepared: preparation.Preparation) -> int:
    """Returns how many bytes prepared records take at most."""
    fixed = int(blocks.due.sum()) * prepared.size
    columns = prepared.columns or {}
    if not any(parsing.get_parsed_type(column)[1] == tf.string for column in columns.values()):
        return fixed
    names = sum(_OF_FEATURE + len(name.encode()) for name in columns)
    return fixed - int(blocks.due.sum()) * names + int(blocks.bytes.sum())


def _count_picked(
    blocks: epoch_order.Blocks, prepared: preparation.Preparation, transforms: Transforms
) -> int:
    """Returns how many records are picked and prepared at a time: few, if what is parsed of them is
    large, however little becomes of it."""
    stored = int(blocks.bytes.sum()) // max(1, int(blocks.due.sum()))
    size = max(prepared.size, parsing.count_bytes(transforms.columns), stored)
    return max(1, min(_PICKED, _PICKED_BYTES // max(1, size)))


def split_evenly(records: int, largest: int, replicas: int) -> list[int]:
    """Returns sizes of batches that hold all records: a multiple of `replicas`, as equal as can
    be, the larger ones first. None is empty if there is a record for each replica: of an odd
    number of records for two replicas with `largest` 1, one batch therefore holds two."""
    rounds = -(-records // (largest * replicas))
    count = max(1, min(rounds, records // replicas)) * replicas
    return [records // count + (n < records % count) for n in range(count)]


@dataclasses.dataclass(frozen=True)
class _BlockReader:
    """`read` makes of a row of `epoch_order.list_readable` the records of that block, `[records]`
    strings; `at_once` rows are read at a time."""

    read: Callable[[tf.Tensor], tf.data.Dataset]
    at_once: int


def _build_block_reader(blocks: epoch_order.Blocks) -> _BlockReader:
    remote = any(storage.is_remote(path) for path in blocks.paths)
    plain = min(_READ_BUFFER, blocks.longest)

    def read(row: tf.Tensor) -> tf.data.Dataset:
        shard, offset, records = tf.unstack(row)
        buffer = choose_read_size(blocks, shard, offset) if remote else plain
        path = tf.gather(tf.constant(blocks.paths), shard)
        return read_records(path, offset, buffer).batch(records).take(1)

    return _BlockReader(read, _AT_ONCE if remote else 1)


def choose_read_size(blocks: epoch_order.Blocks, shard: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Returns how many bytes to ask for at once of the block there: TensorFlow's client fetches
    just as many as a read asks for, if they are more than `gcs_client.LEAST_READ`."""
    places = blocks.shard * _LARGEST_SHARD + blocks.offset
    block = tf.searchsorted(places, tf.reshape(shard * _LARGEST_SHARD + offset, [1]))[0]
    return tf.gather(np.minimum(blocks.bytes, _LARGEST_REQUEST), block)


def _read_blocks(rows: tf.data.Dataset, reader: _BlockReader) -> tf.data.Dataset:
    """Returns the blocks of rows, one after the other in their order."""
    if reader.at_once == 1:
        return rows.flat_map(reader.read)
    return rows.interleave(
        reader.read,
        cycle_length=reader.at_once,
        num_parallel_calls=reader.at_once,
        deterministic=True,
    )


def _build_window_reader(
    blocks: epoch_order.Blocks,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """Returns a function from a `shuffle.MixingWindow` to its records, all in one piece.

    With them come the order they are to be used in, and their marks. Nothing, if the window has
    none.
    """
    reader = _build_block_reader(blocks)

    def read(where: tf.Tensor, index: tf.Tensor, marks: tf.Tensor) -> tf.data.Dataset:
        records = _read_blocks(tf.data.Dataset.from_tensor_slices(where), reader)
        whole = records.rebatch(tf.maximum(tf.reduce_sum(where[:, 2]), 1))
        order = tf.data.Dataset.from_tensors((index, marks))
        return tf.data.Dataset.zip((whole, order))

    return read


def _prepare_all(
    blocks: epoch_order.Blocks,
    prepare: Callable[[tf.Tensor], Any],
    picked: int,
    *,
    calls: int | None,
) -> tf.data.Dataset:
    """Returns all records in order, prepared, in one piece."""
    rows = epoch_order.list_readable(blocks)
    read = _read_blocks(tf.data.Dataset.from_tensor_slices(rows), _build_block_reader(blocks))
    parts = read.rebatch(picked).prefetch(2).map(prepare, num_parallel_calls=calls)
    return parts.rebatch(int(rows[:, 2].sum()))


def _read_from_memory(
    windows: tf.data.Dataset, blocks: epoch_order.Blocks, made: tf.data.Dataset
) -> tf.data.Dataset:
    """Returns what `_build_window_reader` makes of each window, but prepared: `made` of all records
    once, before the first, and kept."""
    first = np.cumsum(blocks.due) - blocks.due

    def order(where: tf.Tensor, index: tf.Tensor, marks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        block, record, _ = tf.unstack(marks, axis=1)
        return tf.gather(tf.constant(first), block) + tf.cast(record, tf.int64), marks

    return tf.data.Dataset.zip((made.cache().repeat(), windows.map(order)))


def _build_mixing(picked: int) -> Callable[[Any, tuple[tf.Tensor, tf.Tensor]], tf.data.Dataset]:
    """Returns a function from the records of a window and their order to them as they are to be
    used, with their marks, `picked` at a time."""

    def mix(records: Any, order: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
        return (
            tf.data.Dataset.from_tensors(order)
            .rebatch(picked)
            .map(lambda at, marks: _pick_records(records, at, marks))
        )

    return mix


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _pick_records(records: Any, at: tf.Tensor, marks: tf.Tensor) -> tuple[Any, parsing.Tensors]:
    block, record, place = tf.unstack(marks, axis=1)
    picked = tf.nest.map_structure(lambda values: tf.gather(values, at), records)
    return picked, {
        window_feed.BLOCK: block,
        window_feed.RECORD: record,
        window_feed.PLACE: place,
    }


def read_records(
    path: tf.Tensor, offset: tf.Tensor, buffer: int | tf.Tensor = _READ_BUFFER
) -> tf.data.Dataset:
    """Reads a TFRecord file from a byte offset on, which `TFRecordDataset` cannot.

    The op beneath it can since TensorFlow 2.13; uncompressed files only
    (docs/tensorflow-pitfalls.md#reading-from-an-offset).
    """
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path],
        compression_type="",
        buffer_size=buffer,
        byte_offsets=[offset],
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
