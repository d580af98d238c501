"""Schedules that leave no step to decay in."""

from __future__ import annotations

import pytest

from pipeline.config.optimizer_config import Optimizer, Schedule


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


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({}, []),
        ({"name": "adam", "weight_decay": 0.1}, []),
        ({"name": "ftrl", "l1": 0.1, "l2": 0.1}, []),
        ({"name": "sgd", "weight_decay": 0.1}, ["weight_decay: only adam uses it"]),
        ({"l1": 0.1, "l2": 1}, ["l1: only ftrl uses it", "l2: only ftrl uses it"]),
        (
            {"schedule": {"decay_steps": 9}},
            ["schedule.decay_steps: only schedule exponential or cosine uses it"],
        ),
        (
            {"schedule": {"name": "cosine", "decay_steps": 9, "decay_rate": 0.5, "end": 0.1}},
            ["schedule.decay_rate: only schedule exponential uses it"],
        ),
        (
            {"schedule": {"name": "exponential", "end": 0.5}},
            ["schedule.end: only schedule cosine uses it"],
        ),
    ],
)
def test_settings_without_effect(given, unused):
    assert Optimizer.model_validate(given).unused == unused
