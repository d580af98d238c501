"""Schedules that leave no step to decay in."""

from __future__ import annotations

import pytest

from pipeline.config.optimizer_config import Schedule


@pytest.mark.parametrize(
    ("schedule", "steps", "length"),
    [
        (Schedule(), 100, 100),
        (Schedule(warm_up_steps=30), 100, 70),
        (Schedule(warm_up_steps=30, decay_steps=500), 100, 500),
    ],
)
def test_decay_takes_the_steps_after_warm_up(schedule, steps, length):
    assert schedule.decay_length(steps) == length


def test_none_left():
    with pytest.raises(ValueError, match="of 50 steps 50 are warm-up, which leaves none for decay"):
        Schedule(warm_up_steps=50).decay_length(50)
