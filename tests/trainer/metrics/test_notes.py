"""What readers of metrics are told of the records."""

from __future__ import annotations

from trainer.metrics import notes


def test_metrics_that_are_not_defined_are_named_with_their_slices():
    rows = [
        ("all", {"auc": 1, "log_loss": 1}),
        ("a=1", {"log_loss": 1}),
        ("a=2", {"log_loss": 1}),
        ("a=3", {}),
    ]
    assert notes.undefined(rows, ("auc", "log_loss")) == [
        "Only one label occurs in a=1, a=2: auc is not defined there.",
        "Only one label occurs in a=3: auc, log_loss are not defined there.",
    ]
    assert notes.undefined(rows[:1], ("auc",)) == []
    assert notes.undefined([("all", {})], ("auc",)) == [
        "Only one label occurs in all records: auc is not defined there."
    ]


def test_of_many_slices_the_first_are_named():
    assert notes.enumerated([f"a={n}" for n in range(8)]) == "a=0, a=1, a=2, a=3, a=4 and 3 more"
