"""Lists that are padded to many more items than any has."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import errors
from pipeline.jobs import table_memory
from pipeline.jobs.table_memory import Room
from pipeline.records import padded_lists
from tests.pipeline.feature_tables import contents, make, statistics

FEATURES = {"tags": {"steps": [{"hash": {"buckets": 9}}], "embedding": 2}}
# There are four batches of 64 rows while training; each row takes 24 bytes an item.
ROW = 1_000_000 * 24
NEEDED = 4 * 64 * ROW


def _job(most=1_000_000, features=FEATURES, **sections):
    tags = {"type": "string", "list": True, "max_items": most, "separator": "|"}
    sections = {"train": {"steps": 1, "batch_size": 64}, "eval": {"batch_size": 50}, **sections}
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
        "data.columns.tags.max_items is 1,000,000, to which each list is padded: 64 rows that are "
        "parsed at a time take 6,144.0 MB with copies, and 12 GB are free. Use a smaller max_items"
    )
    table_memory.check(job, Room(NEEDED, "x", each=False), None)


def test_the_longest_list_is_named_once_it_is_known():
    job = _job()
    with pytest.raises(errors.UsageError, match=r"max_items; the longest list of train has 8 ite"):
        padded_lists.check(job, _contents(job, 8), 0, words="x")


def test_what_is_evaluated_counts_if_it_is_more():
    job = _job(eval={"batch_size": 100})
    with pytest.raises(errors.UsageError, match=r": 100 rows that are parsed at a time take 7,200"):
        padded_lists.check(job, None, 3 * 100 * ROW - 1, words="x")
    padded_lists.check(job, None, 3 * 100 * ROW, words="x")


def test_memory_of_servers_is_not_that_of_processes_that_parse():
    servers = {"strategy": "parameter_server", "ps": 1}
    table_memory.check(_job(cluster=servers), Room(NEEDED - 1, "x"), None)


def test_lists_that_no_feature_uses_are_not_read():
    job = _job(features={"seats": {"steps": ["z_score"]}})
    padded_lists.check(job, None, 0, words="x")


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
    parsed, vectors = 4 * 512 * 5000 * 24, 2 * 512 * 4000 * numbers * 4
    message = (
        rf"^features\.tags: a batch is padded to its longest list, .* = {vectors / 1e6:,.1f} MB"
    )
    with pytest.raises(errors.UsageError, match=message) as raised:
        padded_lists.check(job, found, parsed + vectors - 1, words="x")
    assert "\n" not in str(raised.value)
    padded_lists.check(job, found, parsed + vectors, words="x")
    # Before there are records, it is not known how long lists are.
    padded_lists.check(job, None, parsed, words="x")


def test_vectors_of_lists_that_become_one_are_not_padded():
    job = _job(5000, train={"steps": 1, "batch_size": 512}, model={"name": "dnn"})
    padded_lists.check(job, _contents(job, 4000), 4 * 512 * 5000 * 24, words="x")
