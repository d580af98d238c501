"""Learning rates over time against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import Length
from pipeline.config.optimizer_config import Schedule
from trainer.optimizers import schedules

STEPS = 100


def _shares(**settings):
    schedule = Schedule(**settings)
    return np.array(
        [
            float(schedules.compute_share(schedule, tf.constant(s, tf.int64), Length(STEPS, STEPS)))
            for s in range(STEPS + 20)
        ]
    )


def test_constant():
    np.testing.assert_array_equal(_shares(), np.ones(STEPS + 20))


def test_warm_up_rises_evenly():
    found = _shares(warm_up_steps=10)
    np.testing.assert_allclose(found[:11], [*np.arange(1, 11) / 10, 1.0], rtol=1e-6)


@pytest.mark.parametrize("warm_up", [0, 20])
def test_exponential(warm_up):
    found = _shares(name="exponential", decay_rate=0.1, decay_steps=50, warm_up_steps=warm_up)
    since = np.arange(warm_up, STEPS + 20) - warm_up
    np.testing.assert_allclose(found[warm_up:], 0.1 ** (since / 50), rtol=1e-5)


def test_cosine_falls_to_its_end_and_stays_there():
    found = _shares(name="cosine", end=0.1, warm_up_steps=20)
    done = np.minimum((np.arange(20, STEPS + 20) - 20) / 80, 1)
    wanted = [0.1 + 0.9 * (1 + math.cos(math.pi * d)) / 2 for d in done]
    np.testing.assert_allclose(found[20:], wanted, atol=1e-6)
    np.testing.assert_allclose(found[STEPS:], 0.1, atol=1e-6)


def _share(step, last, whole, **settings):
    schedule = Schedule(**settings)
    return float(
        schedules.compute_share(schedule, tf.constant(step, tf.int64), Length(last, whole))
    )


@pytest.mark.parametrize("name", ["cosine", "exponential"])
def test_after_a_change_of_batch_size_the_schedule_continues(name):
    """Half of 100 steps made; with doubled batches the other half takes 25."""
    settings = {"name": name, "end": 0.1} if name == "cosine" else {"name": name}
    before = _share(50, 100, 100, **settings)
    assert _share(50, 75, 50, **settings) == pytest.approx(before)
    assert _share(75, 75, 50, **settings) == pytest.approx(_share(100, 100, 100, **settings))
    # With halved ones, 100.
    assert _share(50, 150, 200, **settings) == pytest.approx(before)


def test_a_decay_in_steps_of_its_own_goes_by_the_global_step():
    settings = {"name": "exponential", "decay_steps": 50}
    assert _share(50, 75, 50, **settings) == pytest.approx(_share(50, 100, 100, **settings))
