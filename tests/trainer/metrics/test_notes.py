"""What readers of metrics are told of the records."""

from __future__ import annotations

from trainer.metrics import notes
from trainer.metrics.groups import GroupCounts


def test_metrics_that_are_not_defined_are_named_with_their_slices():
    rows = [
        ("all", {"auc": 1, "log_loss": 1}),
        ("a=1", {"log_loss": 1}),
        ("a=2", {"log_loss": 1}),
        ("a=3", {}),
    ]
    assert notes.describe_undefined(rows, ("auc", "log_loss")) == [
        "Only one label occurs in a=1, a=2: auc is not defined there.",
        "Only one label occurs in a=3: auc, log_loss are not defined there.",
    ]
    assert notes.describe_undefined(rows[:1], ("auc",)) == []
    assert notes.describe_undefined([("all", {})], ("auc",)) == [
        "Only one label occurs in all records: auc is not defined there."
    ]


def test_of_many_slices_the_first_are_named():
    assert (
        notes.enumerate_slices([f"a={n}" for n in range(8)]) == "a=0, a=1, a=2, a=3, a=4 and 3 more"
    )


def test_groups_that_do_not_count_are_named():
    counts = GroupCounts(
        groups=1200,
        usable=1000,
        of_one=100,
        only_positive=40,
        only_negative=60,
        short=300,
        without=7,
    )
    assert list(notes.describe_groups(counts, "user", 10)) == [
        "Groups by user that hold both labels and count in grouped_auc, ndcg@10, mrr@10, "
        "hit_rate@10: 1,000 of 1,200; left out: 200 (100 of one record, 60 of more with negatives "
        "only, 40 of more with positives only).",
        "Of these groups 300 hold at most 10 records: every order has a hit there, so their "
        "hit_rate@10 is 1.",
        "Records without user, in no group: 7.",
    ]


def test_no_group_counts():
    counts = GroupCounts(
        groups=3, usable=0, of_one=3, only_positive=0, only_negative=0, short=0, without=0
    )
    assert list(notes.describe_groups(counts, "user", 5)) == [
        "Groups by user that hold both labels: none of 3 (3 of one record); grouped_auc, ndcg@5, "
        "mrr@5, hit_rate@5 are not defined."
    ]
