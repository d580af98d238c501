"""Mixing: every record once, each block in its own order, and as random as a full shuffle."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job as preprocessing
from tests import reading, record_sets
from tests.preprocessing import examples, idx_files
from trainer.input import shuffle, window_feed
from trainer.input.dataset import RecordDataset

SEEDS = st.integers(0, 2**63)
PIECES = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 19)), max_size=8)


def _rows(block_ranges, epoch=0):
    """A row for each (records, records to skip), of blocks 10, 11, ..."""
    return [
        np.array([0, 100 * n, records, skip % records, epoch, 10 + n, records])
        for n, (records, skip) in enumerate(block_ranges)
    ]


@given(PIECES, SEEDS, st.integers(0, 1000))
def test_what_is_left_of_each_block_comes_once_in_the_order_of_its_places(
    block_ranges, seed, epoch
):
    rows = _rows(block_ranges, epoch)
    where, index, marks = shuffle.build_window(rows, seed)
    assert where.tolist() == [row[:3].tolist() for row in rows]
    first = 0
    for row in rows:
        _, _, records, skip, _, block, _ = row.tolist()
        mine = marks[:, 0] == block
        assert (index[mine] - first == marks[mine, 1]).all()
        assert len(set(marks[mine, 1].tolist())) == records - skip
        assert marks[mine, 2].tolist() == [epoch * records + n + 1 for n in range(skip, records)]
        first += records
    assert len(marks) == sum(row[2] - row[3] for row in rows)


def test_a_block_has_one_order_whatever_it_is_mixed_with():
    """Another reader continues it, or this one after a restart."""
    alone = shuffle.build_window(_rows([(9, 0)]), 1).marks[:, 1].tolist()
    after = shuffle.build_window(_rows([(9, 4), (5, 0), (7, 2)]), 1).marks
    assert after[after[:, 0] == 10, 1].tolist() == alone[4:]


def test_a_part_of_a_block_is_of_its_order():
    whole = shuffle.build_window(_rows([(9, 0)]), 1).marks.tolist()
    (row,) = _rows([(9, 4)])
    row[-1] = 7
    assert shuffle.build_window([row], 1).marks.tolist() == whole[4:7]


def test_orders_differ_by_seed_and_epoch_only():
    def found(seed, epoch):
        return tuple(shuffle.build_window(_rows([(9, 0), (9, 0)], epoch), seed).chosen.tolist())

    assert found(1, 0) == found(1, 0)
    assert len({found(seed, epoch) for seed in range(10) for epoch in range(10)}) == 100


def test_every_order_is_as_likely():
    """Of two blocks with two records each there are 24; their chi-square has 23 degrees of
    freedom, and is beyond 50 once in a thousand."""
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(4800):
        found = tuple(shuffle.build_window(_rows([(2, 0), (2, 0)]), seed).chosen.tolist())
        counts[found] = counts.get(found, 0) + 1
    assert len(counts) == 24
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 50


BATCH = 128


def _unevenness(batches, labels):
    """Returns the chi-square of the labels of each batch, `[batches]`."""
    expected = np.bincount(labels, minlength=10) / len(labels) * BATCH
    counts = np.array([np.bincount(batch, minlength=10) for batch in batches])
    return ((counts - expected) ** 2 / expected).sum(axis=1)


def _assert_as_uneven(found, full):
    """The mean chi-square of a full shuffle is 9 times (records - batch) / (records - 1), with an
    error of 0.2 over the batches of an epoch; a larger distance of the distributions than 0.13
    comes once in a thousand epochs (Kolmogorov and Smirnov)."""
    assert abs(found.mean() - 8.98) < 0.6
    at = np.concatenate([found, full])
    shares = [
        np.searchsorted(np.sort(values), at, side="right") / len(at) for values in (found, full)
    ]
    assert 2 * np.abs(shares[0] - shares[1]).max() < 0.13


@dataclasses.dataclass(frozen=True)
class _Sorted:
    """MNIST's training images as records, in the order of their labels."""

    folder: str
    contents: manifest.Manifest
    labels: np.ndarray

    def epoch(self, *overrides):
        """Returns the full batches of the first epoch, `[batches, batch]`: of each record its row
        in the order of labels."""
        job = config_file.load("mnist", [f"train.batch_size={BATCH}", *overrides])
        records = RecordDataset(job, self.folder, self.contents)
        sizes = records.list_blocks("train").records
        first = np.cumsum(sizes) - sizes
        with tf.Graph().as_default():
            dataset = reading.train_dataset(records).map(
                lambda features, label: (
                    features[window_feed.BLOCK],
                    features[window_feed.RECORD],
                    label,
                )
            )
            found = reading.batches(dataset, len(self.labels) // BATCH)
        rows = np.array([first[block] + number for block, number, _ in found])
        assert (self.labels[rows] == [labels for _, _, labels in found]).all()
        return rows

    def unevenness(self, rows):
        return _unevenness(self.labels[rows], self.labels)

    def shuffled(self):
        """As `epoch`, by a full shuffle."""
        rows = np.random.default_rng(1).permutation(len(self.labels))
        return rows[: len(rows) // BATCH * BATCH].reshape(-1, BATCH)


@pytest.fixture(scope="module")
def rows_by_label():
    """Images and labels of MNIST's train split, in the order of labels."""
    raw = config_file.SHIPPED.parent / "data" / "mnist"
    labels, images = (
        np.frombuffer(gzip.decompress((raw / f"train-{name}-ubyte.gz").read_bytes())[head:], "u1")
        for name, head in (("labels-idx1", 8), ("images-idx3", 16))
    )
    by_label = np.argsort(labels, kind="stable")
    return images.reshape(-1, 28, 28)[by_label], labels[by_label]


@pytest.fixture(scope="module")
def sorted_by_label(tmp_path_factory, rows_by_label):
    payloads = [
        examples.example(image=image.tobytes(), label=int(label))
        for image, label in zip(*rows_by_label, strict=True)
    ]
    shards = [payloads[n : n + 7500] for n in range(0, len(payloads), 7500)]
    folder, job = tmp_path_factory.mktemp("sorted"), config_file.load("mnist")
    contents = record_sets.write(
        folder, {"train": shards}, block_records=256, columns=job.data.columns
    )
    return _Sorted(str(folder), contents, rows_by_label[1])


def test_labels_are_mixed_as_by_a_full_shuffle(sorted_by_label):
    rows = sorted_by_label.epoch()
    assert len(np.unique(rows)) == rows.size
    full = sorted_by_label.unevenness(sorted_by_label.shuffled())
    _assert_as_uneven(sorted_by_label.unevenness(rows), full)


@pytest.fixture(scope="module")
def preprocessed(tmp_path_factory, rows_by_label):
    """The records that preprocessing makes of raw data in the order of labels."""
    folder = tmp_path_factory.mktemp("preprocessed")
    settings = ["data.split.eval=0"]
    for role, values in zip(("images", "labels"), rows_by_label, strict=True):
        (folder / role).write_bytes(idx_files.idx_bytes(values))
        settings.append(f"data.inputs.train.{role}={folder / role}")
    job = config_file.load("mnist", settings)
    made = preprocessing.run(job, str(folder))
    return builds.find_current(run_folder.records_folder(str(folder), job.name)), made


# How many blocks asynchronous processes mix at once depends on their number: one is the least.
@pytest.mark.parametrize(("number", "epoch"), [(1, 0), (4096, 3)])
def test_labels_are_mixed_as_well_in_each_of_several_readers(preprocessed, number, epoch):
    """Preprocessing has put the rows into the order of their hashes: each block is as drawn at
    random, so that it does not matter who reads which."""
    folder, contents = preprocessed
    settings = [f"train.batch_size={BATCH}", f"train.open_blocks={number}"]
    records = RecordDataset(config_file.load("mnist", settings), folder, contents)
    sizes, found = records.list_blocks("train").records, []
    for rank in range(3):
        with tf.Graph().as_default():
            dataset = reading.train_dataset(records, rank, 3, epoch * sizes)
            labels = dataset.map(lambda features, label: label)
            found += reading.batches(labels, contents.split("train").records // BATCH // 3 - 1)
    labels = np.concatenate(found)
    full = np.random.default_rng(1).permutation(labels).reshape(-1, BATCH)
    _assert_as_uneven(_unevenness(found, labels), _unevenness(full, labels))


def test_the_order_has_nothing_of_the_order_of_the_records(sorted_by_label):
    """Of a random order the rank correlation has a standard deviation of 0.004."""
    rows = sorted_by_label.epoch().reshape(-1)
    assert abs(np.corrcoef(np.arange(len(rows)), rows)[0, 1]) < 0.015


@pytest.mark.parametrize("number", [1, 16])
def test_fewer_blocks_at_once_are_mixed_worse(sorted_by_label, number):
    """What the test above measures can fail."""
    rows = sorted_by_label.epoch(f"train.open_blocks={number}")
    assert sorted_by_label.unevenness(rows).mean() > 50
