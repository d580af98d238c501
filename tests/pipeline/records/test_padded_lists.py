"""Lists that are padded to many more items than any has."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import errors
from pipeline.jobs import table_memory
from pipeline.jobs.table_memory import Room
from pipeline.records import manifest, padded_lists
from tests.pipeline.feature_tables import contents, make, statistics

FEATURES = {"tags": {"steps": [{"hash": {"buckets": 9}}], "embedding": 2}}
# 256 rows are a block, of which there are three where one process reads, and 64 a batch; each row
# takes 24 bytes an item.
ROW = 1_000_000 * 24
NEEDED = (3 * 256 + 64) * ROW


def _job(most=1_000_000, features=FEATURES, **sections):
    tags = {"type": "string", "list": True, "max_items": most, "separator": "|"}
    sections = {"train": {"steps": 1, "batch_size": 64}, "eval": {"batch_size": 100}, **sections}
    return make(features, {"threshold": 1}, {"tags": tags}, **sections)


def _contents(job, longest):
    found = contents(job)
    tags = statistics(np.zeros(1)).model_copy(update={"lengths": statistics(np.array([longest]))})
    train = found.statistics["train"]
    train = train.model_copy(update={"columns": {**train.columns, "tags": tags}})
    return found.model_copy(update={"statistics": {"train": train}})


def test_what_they_take_is_refused_before_a_process_starts():
    job = _job()
    with pytest.raises(errors.UsageError) as raised:
        table_memory.check(job, Room(NEEDED - 1, "12 GB are free", each=False), None)
    assert str(raised.value) == (
        "data.columns.tags.max_items is 1,000,000, to which each list is padded: 256 rows that are "
        "parsed at a time take 19,968.0 MB with copies, and 12 GB are free. Use a smaller max_items"
    )
    table_memory.check(job, Room(NEEDED, "x", each=False), None)


def test_the_longest_list_is_named_once_it_is_known():
    job = _job()
    with pytest.raises(errors.UsageError, match=r"max_items; the longest list of train has 8 ite"):
        padded_lists.check(job, _contents(job, 8), 0, words="x")


def test_of_several_processes_that_read_none_parses_ahead():
    job = _job(cluster={"strategy": "multi_worker_mirrored", "workers": 1})
    with pytest.raises(errors.UsageError, match=r"take 13,824.0 MB with copies"):
        padded_lists.check(job, None, (2 * 256 + 64) * ROW - 1, words="x")
    padded_lists.check(job, None, (2 * 256 + 64) * ROW, words="x")


def test_the_largest_batch_counts():
    job = _job(train={"steps": 1, "batch_size": 512})
    with pytest.raises(
        errors.UsageError, match=r": 512 rows that are parsed at a time take 30,720"
    ):
        padded_lists.check(job, None, (3 * 256 + 512) * ROW - 1, words="x")
    padded_lists.check(job, None, (3 * 256 + 512) * ROW, words="x")


def test_a_block_is_no_longer_than_train():
    job = _job()
    found = _contents(job, 8)
    train = manifest.Split(records=10, shards=())
    found = found.model_copy(update={"splits": {"train": train}, "block_records": 256})
    needed = 2 * 100 * ROW  # the batch of eval
    with pytest.raises(errors.UsageError, match="100 rows that are parsed at a time"):
        padded_lists.check(job, found, needed - 1, words="x")
    padded_lists.check(job, found, needed, words="x")


def test_memory_of_servers_is_not_that_of_processes_that_parse():
    servers = {"strategy": "parameter_server", "ps": 1}
    table_memory.check(_job(cluster=servers), Room(NEEDED - 1, "x"), None)


def test_lists_that_no_feature_uses_are_not_read():
    job = _job(features={"seats": {"steps": ["z_score"]}})
    padded_lists.check(job, None, 0, words="x")
    assert padded_lists.limit_blocks(job, 256) == job.train.open_blocks


@pytest.mark.parametrize(
    ("most", "longest", "is_said"), [(257, 64, True), (256, 64, False), (64, 1, False)]
)
def test_mostly_padding_is_reported(most, longest, is_said):
    job = _job(most)
    lines = list(padded_lists.warnings(job, _contents(job, longest)))
    said = (
        "data.columns.tags.max_items is 257, and the longest list of train has 64 items: each is "
        "padded to 257, which costs time and memory. Use a smaller max_items, such as 128"
    )
    assert lines == ([said] if is_said else [])
    assert not list(padded_lists.warnings(job, contents(job)))


def test_fewer_blocks_are_mixed():
    assert padded_lists.limit_blocks(_job(), 256) == 1
    assert padded_lists.limit_blocks(_job(100), 256) == (512 << 20) // (256 * 100 * 24)


SEQUENCE = {"steps": [{"hash": {"buckets": 9}}], "embedding": {"size": 8, "sequence": True}}


@pytest.mark.parametrize(
    ("reduction", "feature", "numbers"),
    [
        ("mean", SEQUENCE, 8),
        ("gru", SEQUENCE, 32),
        ("attention", {**SEQUENCE, "embedding": {"table": "tail", "sequence": True}}, 5 * 6),
        ("last", SEQUENCE, 8),
    ],
)
def test_vectors_of_the_longest_sequence_are_refused(reduction, feature, numbers):
    features = {"tail": {"steps": [{"hash": {"buckets": 9}}], "embedding": 6}, "tags": feature}
    model = {"name": "din", "params": {"reduction": reduction}}
    job = _job(5000, features, model=model, train={"steps": 1, "batch_size": 512})
    found = _contents(job, 4000)
    parsed, vectors = (
        max(3 * found.block_records + 512, 2 * 512) * 5000 * 24,
        2 * 512 * 4000 * numbers * 4,
    )
    message = (
        rf"^features\.tags: a batch is padded to its longest list, .* = {vectors / 1e6:,.1f} MB"
    )
    with pytest.raises(errors.UsageError, match=message) as raised:
        padded_lists.check(job, found, parsed + vectors - 1, words="x")
    assert "\n" not in str(raised.value)
    padded_lists.check(job, found, parsed + vectors, words="x")
    # Before there are records, it is not known how long lists are.
    padded_lists.check(job, None, (3 * 256 + 512) * 5000 * 24, words="x")


def test_vectors_of_lists_that_become_one_are_not_padded():
    job = _job(5000, train={"steps": 1, "batch_size": 512}, model={"name": "dnn"})
    padded_lists.check(job, _contents(job, 4000), (3 * 256 + 512) * 5000 * 24, words="x")
