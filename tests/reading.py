"""Reads training input as one of several readers would, from a given position."""

import numpy as np
import tensorflow as tf

from trainer.input import epoch_order, shares, window_feed


def train_dataset(records, rank=0, readers=1, applied=None):
    """The training input of one reader; `applied` are records of each block read before."""
    blocks = records.list_blocks("train")
    counts = np.zeros(len(blocks.records), np.int64) if applied is None else applied
    schedule = epoch_order.BlockSchedule(blocks, records.job.train.seed, counts)
    train = records.job.train
    number = epoch_order.open_blocks(blocks, train.open_blocks, readers)
    feed = window_feed.Feed(blocks, train.seed, number)
    feed.begin(lambda: shares.assign(schedule, rank, readers))
    return records.build_train_input_fn(feed, readers)()


def batches(dataset, count):
    """The first `count` elements of `dataset`, built in the graph that is current."""
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    with tf.compat.v1.Session() as session:
        session.run(iterator.initializer)
        return [session.run(element) for _ in range(count)]
