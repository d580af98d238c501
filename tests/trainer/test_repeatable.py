"""Two processes with one seed train to the same bits."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support.sets import slow

QUICK = ("train.steps=40", "train.save_steps=40", "train.summary_steps=40")


@pytest.fixture(scope="module")
def trained(commands, task_flags, small_records):
    """Returns a function from a seed and a number to the checkpoint of a run, trained once."""

    @functools.cache
    def train(seed, number):
        run = f"seed-{seed}-{number}"
        commands.run("trainer.task", *task_flags(run, *QUICK, f"train.seed={seed}"))
        reader = tf.train.load_checkpoint(f"{small_records.storage}/runs/{run}/model.ckpt-40")
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    return train


@pytest.mark.parametrize("seed", [1, slow(7)])
def test_checkpoints_are_equal_to_the_bit(trained, seed):
    first, second = trained(seed, 1), trained(seed, 2)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


@pytest.mark.slow
def test_another_seed_begins_elsewhere(trained):
    one, other = trained(1, 1), trained(7, 1)
    assert any((one[name] != other[name]).any() for name in one if name.endswith("kernel"))
