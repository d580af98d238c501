"""Two processes with one seed train to the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

QUICK = ("train.steps=40", "train.save_steps=40", "train.summary_steps=40")


def _trained(commands, task_flags, run, small_records, *overrides):
    commands.run("trainer.task", *task_flags(run, *QUICK, *overrides))
    reader = tf.train.load_checkpoint(f"{small_records.storage}/runs/{run}/model.ckpt-40")
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize(("number", "seed"), [(1, 1), (2, 7)])
def test_checkpoints_are_equal_to_the_bit(commands, task_flags, small_records, number, seed):
    both = [
        _trained(commands, task_flags, f"again-{number}-{n}", small_records, f"train.seed={seed}")
        for n in range(2)
    ]
    assert both[0].keys() == both[1].keys()
    for name, values in both[0].items():
        np.testing.assert_array_equal(values, both[1][name], err_msg=name)


def test_another_seed_begins_elsewhere(commands, task_flags, small_records):
    one, other = (
        _trained(commands, task_flags, f"seed-{seed}", small_records, f"train.seed={seed}")
        for seed in (3, 4)
    )
    assert any((one[name] != other[name]).any() for name in one if name.endswith("kernel"))
