"""The parts of the ledger's benchmark that need a process of their own; prints JSON.

python -m benchmarks.ledger_parts reading FOLDER    below which records/mnist has been made
python -m benchmarks.ledger_parts planning
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from trainer.distribution import autotuner
from trainer.exactly_once import saved_counts
from trainer.input import dataset, epoch_order, parsing, shares, window_feed

_ROUNDS, _BATCH = 9, 128
_SHARDS, _BLOCKS, _RECORDS, _WORKERS = 1_000, 1_000, 1_000, 1_000


def measure_reading(folder: str) -> dict[str, float]:
    """Returns the examples/s of the training input and of a bare one, each over two epochs."""
    tf.compat.v1.disable_eager_execution()
    job = config_file.load("mnist", [f"train.batch_size={_BATCH}"])
    path = builds.find_current(run_folder.records_folder(folder, job.name))
    records = dataset.RecordDataset(job, path, manifest.read(path))
    pipelines = {"ours": lambda: _build_ours(records), "bare": lambda: _build_bare(records)}
    steps = records.list_blocks("train").total_records // _BATCH
    rates: dict[str, list[float]] = {name: [] for name in pipelines}
    for number in range(_ROUNDS):
        # Whichever is first in one round is second in the next.
        for name in sorted(pipelines, reverse=bool(number % 2)):
            rates[name].append(_measure_rate(pipelines[name], steps))
    return {name: statistics.median(found) for name, found in rates.items()}


def _build_ours(records: dataset.RecordDataset) -> tf.data.Dataset:
    blocks = records.list_blocks("train")
    train = records.job.train
    feed = window_feed.Feed(
        blocks, train.seed, epoch_order.open_blocks(blocks, train.open_blocks, 1)
    )
    schedule = epoch_order.BlockSchedule(
        blocks, records.job.train.seed, np.zeros(len(blocks.records), np.int64)
    )
    feed.begin(lambda: shares.assign(schedule, 0, 1))
    return records.build_train_input_fn(feed, 1)()


def _build_bare(records: dataset.RecordDataset) -> tf.data.Dataset:
    """No order, no mixing, no position. The options are the same."""
    transforms = records.transforms
    return (
        tf.data.TFRecordDataset(
            list(records.list_blocks("train").paths), buffer_size=dataset._READ_BUFFER
        )
        .repeat()
        .batch(_BATCH, drop_remainder=True)
        .map(lambda batch: parsing.parse(batch, transforms.columns))
        .map(lambda batch: transforms.examples(batch, training=True))
        .prefetch(2)
        .with_options(autotuner.OPTIONS)
    )


def _measure_rate(build, steps: int) -> float:
    """The first epoch warms up, the second is measured."""
    with tf.Graph().as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(build())
        fetch = tf.group(*tf.nest.flatten(iterator.get_next()))
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            for _ in range(steps):
                session.run(fetch)
            began = time.perf_counter()
            for _ in range(steps):
                session.run(fetch)
            return steps * _BATCH / (time.perf_counter() - began)


def measure_planning() -> dict[str, float]:
    """Plans an epoch of 10^9 records from its start, and from its middle, for every worker."""
    before = _read_peak_megabytes()
    split, number = _build_split(), _SHARDS * _BLOCKS
    applied = np.zeros(number, np.int64)
    applied[epoch_order.order_blocks(number, 1, 0)[: number // 2]] = _RECORDS
    began = time.perf_counter()
    blocks = epoch_order.list_split_blocks(split, _RECORDS, [f"shard-{n}" for n in range(_SHARDS)])
    assert epoch_order.open_blocks(blocks, 4096, _WORKERS) > 1
    for counts in (np.zeros(number, np.int64), applied):
        schedule = epoch_order.BlockSchedule(blocks, 1, counts)
        for rank in range(_WORKERS):
            # What a worker opens at once.
            assert schedule[rank].epoch == schedule[rank + 15 * _WORKERS].epoch == 0
    assert epoch_order.build_ledger(blocks, applied, applied)[0].left == number // 2 * _RECORDS
    seconds = time.perf_counter() - began
    variables = saved_counts.build_unread(blocks).values()
    return {
        "s": seconds,
        "MB": _read_peak_megabytes() - before,
        "MB in checkpoint": sum(value.nbytes for value in variables) / 2**20,
    }


def _build_split() -> manifest.Split:
    size = 100_000
    shards = tuple(
        manifest.Shard(
            path=f"shard-{n}",
            records=_BLOCKS * _RECORDS,
            bytes=_BLOCKS * size,
            crc32c="",
            blocks=tuple(range(0, _BLOCKS * size, size)),
        )
        for n in range(_SHARDS)
    )
    return manifest.Split(records=_SHARDS * _BLOCKS * _RECORDS, shards=shards)


def _read_peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    part, *arguments = sys.argv[1:]
    print(json.dumps({"reading": measure_reading, "planning": measure_planning}[part](*arguments)))
