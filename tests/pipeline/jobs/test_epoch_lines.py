"""Many epochs in few lines."""

from __future__ import annotations

import pytest

from pipeline.jobs.epoch_lines import EpochLines

ONCE = "60 of 60 records applied once"


@pytest.fixture
def said():
    return []


@pytest.fixture
def lines(said):
    return EpochLines(said.append)


def test_few_are_shown_as_they_are(lines, said):
    for number in range(3):
        lines.add(f"epoch {number}: {ONCE}")
    assert said == [f"epoch {number}: {ONCE}" for number in range(3)]


def test_of_many_that_say_the_same_most_are_put_together(lines, said):
    for number in range(100):
        lines.add(f"epoch {number}: {ONCE}")
    lines.flush()
    assert said[:6] == [
        *(f"epoch {number}: {ONCE}" for number in range(3)),
        f"epochs 3 to 5, each: {ONCE}",
        f"epochs 6 to 11, each: {ONCE}",
        f"epochs 12 to 23, each: {ONCE}",
    ]
    assert said[-1] == f"epochs 96 to 99, each: {ONCE}" and len(said) == 9
    lines.flush()
    assert len(said) == 9


def test_what_differs_is_shown_at_once_and_in_order(lines, said):
    for number in range(5):
        lines.add(f"epoch {number}: {ONCE}")
    lines.add("epoch 5: 59 of 60 records applied once, 1 never")
    lines.add(f"epoch 6: {ONCE}")
    assert said[3:] == [
        f"epochs 3 to 4, each: {ONCE}",
        "epoch 5: 59 of 60 records applied once, 1 never",
        f"epoch 6: {ONCE}",
    ]


def test_other_lines_pass(lines, said):
    for _ in range(5):
        lines.add("all is well")
    assert said == ["all is well"] * 5
