"""What training and evaluation read of real records, through the graph that reads them."""

from __future__ import annotations

import collections
import itertools
import pathlib
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors, storage
from pipeline.records import tfrecord
from tests import reading
from tests.pipeline import feature_tables
from trainer.features.transforms import Transforms
from trainer.input import dataset as trainer_input
from trainer.input import epoch_order, preparation, ready_times, shares, window_feed
from trainer.input.dataset import RecordDataset


@pytest.fixture(scope="module")
def source(small_records):
    """The records as their files have them, one after the other."""
    return _Source(small_records)


class _Source:
    def __init__(self, small):
        self.small = small
        contents = small.contents.splits
        self.blocks = RecordDataset(small.job, small.folder, small.contents).list_blocks("train")
        self.images = {
            split: [_image(r) for path in _paths(small, split) for r in tfrecord.read(path)]
            for split in contents
        }
        # MNIST has no two equal images among the first 3,000, so an image names its record.
        self.place = {image: row for row, image in enumerate(self.images["train"])}
        assert len(self.place) == contents["train"].records

    def records(self, *overrides):
        return RecordDataset(self.small.config(*overrides), self.small.folder, self.small.contents)

    def batches(self, count, *overrides, rank=0, readers=1, applied=None):
        """Returns the record numbers in `count` train batches, `[count, batch]`."""
        with tf.Graph().as_default():
            dataset = reading.train_dataset(self.records(*overrides), rank, readers, applied)
            found = [features["image"] for features, _ in reading.batches(dataset, count)]
        return [[self.place[image.tobytes()] for image in images] for images in found]

    def block_of(self, numbers):
        """Returns the index of the block of each record."""
        return np.searchsorted(np.cumsum(self.blocks.records), numbers, side="right")


def _paths(small, split):
    return [storage.join(small.folder, shard.path) for shard in small.contents.split(split).shards]


def _image(serialized):
    return tf.train.Example.FromString(serialized).features.feature["image"].bytes_list.value[0]


def test_every_block_read_by_offset_is_the_one_of_the_sequential_read(small_records):
    """Holds the raw op, which is not part of TensorFlow's promises, for this version."""
    for shard, path in zip(
        small_records.contents.split("train").shards, _paths(small_records, "train"), strict=True
    ):
        whole = [r.numpy() for r in tf.data.TFRecordDataset(path)]
        assert whole == list(tfrecord.read(path))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            # Built inside a dataset function, as training does: elsewhere the op does not work.
            read = (
                tf.data.Dataset.from_tensor_slices(np.array(shard.blocks, np.int64))
                .map(lambda at, path=path: trainer_input.read_records(path, at).batch(32))
                .flat_map(lambda blocks: blocks.take(1))
            )
            element = tf.compat.v1.data.make_one_shot_iterator(read).get_next()
            blocks = [session.run(element).tolist() for _ in shard.blocks]
        assert blocks == [whole[n * 32 : (n + 1) * 32] for n in range(len(shard.blocks))]


def _left_of_epoch(schedule, rank, readers):
    """Number of records of the first epoch that one of the readers is dealt."""
    dealt = shares.assign(schedule, rank, readers)
    return sum(
        map(
            schedule.count_left,
            itertools.takewhile(lambda block_range: block_range.epoch == 0, dealt),
        )
    )


@pytest.mark.parametrize("readers", [1, 2, 3])
def test_an_epoch_has_each_record_once(source, readers):
    total = source.blocks.total_records
    seen = collections.Counter()
    nothing = np.zeros(len(source.blocks.records), np.int64)
    for rank in range(readers):
        own = _left_of_epoch(epoch_order.BlockSchedule(source.blocks, 1, nothing), rank, readers)
        # One block open at a time: then an epoch is over before the next begins.
        overrides = ("train.batch_size=1", "train.open_blocks=1")
        batches = source.batches(own, *overrides, rank=rank, readers=readers)
        seen.update(itertools.chain(*batches))
    assert seen == collections.Counter(range(total))


def test_batches_are_full_across_the_ends_of_epochs(source):
    batches = source.batches(80, "train.batch_size=100")
    assert {len(batch) for batch in batches} == {100}
    # 8,000 records of 2,847: twice each, but for some of the third epoch.
    seen = collections.Counter(itertools.chain(*batches))
    assert len(seen) == source.blocks.total_records
    assert set(seen.values()) == {2, 3}


def test_images_keep_their_labels(source, small_records):
    labels = dict(
        zip(
            (image.tobytes() for image in small_records.images["train"]),
            small_records.labels["train"],
            strict=True,
        )
    )
    for features, found in reading.train_dataset(source.records()).take(3):
        assert features["image"].shape == (100, 28, 28, 1)
        assert sorted(features) == [
            "image",
            window_feed.BLOCK,
            window_feed.PLACE,
            window_feed.RECORD,
        ]
        assert found.numpy().tolist() == [labels[i.tobytes()] for i in features["image"].numpy()]


def test_equal_seeds_read_alike_and_others_do_not(source):
    first = source.batches(30)
    assert source.batches(30) == first
    assert source.batches(30, "train.seed=2") != first


MARKS = (window_feed.BLOCK, window_feed.RECORD, window_feed.PLACE)


@pytest.mark.parametrize("threads", ["3", "16"])
def test_batches_and_marks_are_the_same_however_many_are_made_at_once(source, monkeypatch, threads):
    def marks():
        with tf.Graph().as_default():
            dataset = reading.train_dataset(source.records())
            return [
                [features[name].tolist() for name in MARKS]
                for features, _ in reading.batches(dataset, 150)
            ]

    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    one_by_one, marks_one_by_one = source.batches(150), marks()
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", threads)
    assert source.batches(150) == one_by_one
    assert marks() == marks_one_by_one


@pytest.mark.parametrize("size", [0, 10_000])  # one record at a time, and a few
def test_batches_are_the_same_however_many_records_are_parsed_at_once(source, monkeypatch, size):
    wanted = source.batches(50, "train.cache_bytes=0")
    monkeypatch.setattr(trainer_input, "_PICKED_BYTES", size)
    assert source.batches(50, "train.cache_bytes=0") == wanted


@pytest.mark.parametrize(
    ("most", "at_once"), [(1, 2048), (1_000, 2048), (100_000, 20), (100_000_000, 1)]
)
def test_few_records_are_parsed_at_once_if_their_lists_may_be_long(most, at_once):
    """However little becomes of them: the length of a list is one number."""
    columns = {"seen": {"type": "int64", "list": True, "max_items": most}}
    features = {"length": {"of": "seen", "steps": [{"pool": {"by": "count"}}]}}
    job = feature_tables.make(features, {"weight": "weight"}, columns, model={"name": "linear"})
    transforms = Transforms(job, feature_tables.contents(job))
    prepared = preparation.build(transforms)
    assert prepared.columns is None and prepared.size < 100
    blocks = types.SimpleNamespace(bytes=np.array([5_000]), due=np.array([100]))
    assert trainer_input._count_picked(blocks, prepared, transforms) == at_once


@pytest.mark.parametrize(
    ("readers", "applied", "left_out", "at_once"),  # any two values of two of them together
    [(1, None, (), "2"), (2, 5, (0, 3), "2"), (1, 5, (), "4096"), (2, None, (0, 3), "4096")],
)
def test_records_kept_in_memory_give_the_same_batches(source, readers, applied, left_out, at_once):
    def read(*overrides):
        records = source.records(*overrides, f"train.open_blocks={at_once}", "train.steps=300")
        records.excluded = {"train": frozenset(left_out)}
        read = None if applied is None else np.minimum(applied, source.blocks.records)
        with tf.Graph().as_default():
            dataset = reading.train_dataset(records, readers - 1, readers, read)
            return [
                [features[name].tolist() for name in ("image", *MARKS)]
                for features, _ in reading.batches(dataset, 70)
            ]

    assert read() == read("train.cache_bytes=0")


@pytest.mark.parametrize(
    ("overrides", "readers", "kept"),
    [
        ((), 1, True),
        (("train.steps=120",), 2, True),
        (("train.steps=100",), 2, False),  # each reads a little less than the split twice
        (("train.cache_bytes=0",), 1, False),
        (("train.cache_bytes=2252447",), 1, False),  # 2,844 records of 28 x 28 bytes and an int64
        (("train.cache_bytes=2252448",), 1, True),
        (("train.steps=50",), 1, False),
    ],
)
def test_records_that_fit_are_read_once(small_records, tmp_path, overrides, readers, kept):
    folder = shutil.copytree(small_records.folder, tmp_path / "records")
    job = small_records.config("train.steps=300", *overrides)
    records = RecordDataset(job, str(folder), small_records.contents)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = reading.train_dataset(records, 0, readers)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        session.run(iterator.initializer)
        session.run(element)
        for path in _paths(small_records, "train"):
            (folder / pathlib.Path(path).name).unlink()
        if not kept:
            with pytest.raises(tf.errors.NotFoundError):
                for _ in range(100):
                    session.run(element)
            return
        for _ in range(100):
            session.run(element)


def test_epochs_differ_in_blocks_and_within_them(source):
    one_at_a_time = ("train.batch_size=1", "train.open_blocks=1")
    total = source.blocks.total_records
    numbers = list(itertools.chain(*source.batches(2 * total, *one_at_a_time)))
    first, second = numbers[:total], numbers[total:]
    assert sorted(first) == sorted(second)
    places = {number: at for at, number in enumerate(second)}
    # Of two neighbours in one epoch few are neighbours in the next.
    together = sum(abs(places[a] - places[b]) == 1 for a, b in itertools.pairwise(first))
    assert together < 0.1 * total


def test_each_record_comes_with_its_block(source):
    with tf.Graph().as_default():
        dataset = reading.train_dataset(source.records())
        for features, _ in reading.batches(dataset, 5):
            numbers = [source.place[image.tobytes()] for image in features["image"]]
            assert features[window_feed.BLOCK].tolist() == source.block_of(numbers).tolist()


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (3, 2), (2, 3)])
def test_going_on_reads_each_record_once_with_any_number_of_readers(source, before, after):
    """In the middle of an epoch, with blocks half read, by other readers than began it."""
    total = source.blocks.total_records
    seen = collections.Counter()
    for rank in range(before):
        seen.update(itertools.chain(*source.batches(7, rank=rank, readers=before)))
    applied = np.bincount(
        source.block_of(list(seen.elements())), minlength=len(source.blocks.records)
    )
    schedule = epoch_order.BlockSchedule(source.blocks, 1, applied)
    for rank in range(after):
        own = _left_of_epoch(schedule, rank, after)
        one_at_a_time = ("train.batch_size=1", "train.open_blocks=1")
        batches = source.batches(own, *one_at_a_time, rank=rank, readers=after, applied=applied)
        seen.update(itertools.chain(*batches))
    assert seen == collections.Counter(range(total))


def test_going_on_in_a_later_epoch(source):
    total = source.blocks.total_records
    one_at_a_time = ("train.batch_size=1", "train.open_blocks=1")
    whole = list(itertools.chain(*source.batches(total + 50, *one_at_a_time)))
    rest = source.batches(50, *one_at_a_time, applied=source.blocks.records)
    assert list(itertools.chain(*rest)) == whole[total:]


def test_the_order_read_has_nothing_of_the_order_of_the_raw_data(source, small_records):
    """Rank correlation over one epoch; of a random order its standard deviation is 0.019."""
    raw = {image.tobytes(): row for row, image in enumerate(small_records.images["train"])}
    numbers = itertools.chain(*source.batches(28, "train.batch_size=100"))
    rows = [raw[source.images["train"][number]] for number in numbers]
    rho = np.corrcoef(np.arange(len(rows)), np.argsort(np.argsort(rows)))[0, 1]
    assert abs(rho) < 0.05


def test_neighbours_come_from_many_blocks(source):
    """A batch mixes the records of all blocks that are read at once."""
    for number, least, most in ((16, 12, 32), (4096, 50, 89)):
        overrides = ("train.batch_size=128", f"train.open_blocks={number}")
        for batch in source.batches(10, *overrides):
            assert least <= len(set(source.block_of(batch))) <= most


def test_more_readers_than_blocks_are_refused(small_records):
    """One of them would wait for records for ever."""
    records_of = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    blocks = len(records_of.list_blocks("train").records)
    feed = window_feed.Feed(records_of.list_blocks("train"), 1, 1)
    records_of.build_train_input_fn(feed, blocks)
    with pytest.raises(
        errors.UsageError,
        match=rf"{blocks + 1} processes train, .* only {blocks} blocks .*data\.block_records",
    ):
        records_of.build_train_input_fn(feed, blocks + 1)


def test_blocks_that_are_left_out_are_not_there_to_share(small_records):
    excluded = {"train": frozenset({0, 3})}
    records_of = RecordDataset(
        small_records.job, small_records.folder, small_records.contents, excluded=excluded
    )
    blocks = records_of.list_blocks("train")
    feed = window_feed.Feed(blocks, 1, 1)
    there = len(blocks.records) - 2
    records_of.build_train_input_fn(feed, there)
    with pytest.raises(errors.UsageError, match=rf"only {there} blocks"):
        records_of.build_train_input_fn(feed, there + 1)


@pytest.mark.parametrize("split", ["eval", "test"])
def test_evaluation_reads_each_record_once(source, split):
    sizes, found = [], []
    for features, labels in source.records("eval.batch_size=64").build_eval_input_fn(split)():
        sizes.append(len(labels))
        found += [image.tobytes() for image in features["image"].numpy()]
    total = source.small.contents.split(split).records
    assert sizes == [64] * (total // 64) + [total % 64]
    assert found == source.images[split]


def test_a_split_without_records_is_named(small_records):
    records_of = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    assert records_of.has("test")
    assert not records_of.has("validation")
    with pytest.raises(errors.DataError, match="split 'validation' has no records"):
        records_of.build_eval_input_fn("validation")


def test_a_block_of_gs_is_asked_for_as_a_whole(source):
    """By its place: each request of TensorFlow's client fetches just as many bytes as asked for."""
    blocks = source.blocks
    found = [
        int(trainer_input.choose_read_size(blocks, shard, offset))
        for shard, offset in zip(blocks.shard, blocks.offset, strict=True)
    ]
    assert found == blocks.bytes.tolist() and max(found) == blocks.longest
    assert sum(found) == sum(s.bytes for s in source.small.contents.split("train").shards)


def test_batches_come_with_when_they_were_ready_if_asked_for(small_records):
    records_of = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    feed = window_feed.Feed(records_of.list_blocks("train"), 1, 1)
    with tf.Graph().as_default():
        plain, _ = records_of.build_train_input_fn(feed, 2)().element_spec
        timed, _ = records_of.build_train_input_fn(feed, 2, timed=True)().element_spec
    assert isinstance(timed, ready_times.TimedFeatures)
    assert timed.features == plain
