"""FTRL from checkpoint to checkpoint against its formula: parameters, and what it remembers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config.optimizer_config import Optimizer
from trainer import optimizers

v1 = tf.compat.v1
RATE, STEPS, START_OF_SQUARES = 0.3, 5, 0.1
ROWS = 6
# The rows that each step asks for; one of them twice, and row 5 never.
IDS = [[0, 1, 1], [2, 0, 3], [1, 4, 4], [0, 2, 3], [4, 1, 0]]
FACTORS = [0.5, -2.0, 1.5, 0.1, -0.7]  # of the loss of each step
TABLE = np.linspace(-0.8, 0.9, 2 * ROWS).reshape(ROWS, 2)
KERNEL = np.array([0.4, -0.05])


def _next(values, gradients, remembered, *, l1, l2):
    """Returns values and sums after an update, as McMahan et al., Ad click prediction, 2013, have
    it; the penalty is l1 |w| + l2 w**2."""
    squares, linear = remembered
    more = squares + gradients**2
    linear = linear + gradients - (np.sqrt(more) - np.sqrt(squares)) / RATE * values
    moved = (np.sign(linear) * l1 - linear) / (np.sqrt(more) / RATE + 2 * l2)
    return np.where(np.abs(linear) > l1, moved, 0.0), (more, linear)


def _expected(l1, l2):
    """Yields table, kernel and their sums after each step, in float64. The loss is a factor times
    the sum, over the rows, of their product with the kernel."""
    table, kernel = TABLE, KERNEL
    of_table = np.full_like(TABLE, START_OF_SQUARES), np.zeros_like(TABLE)
    of_kernel = np.full_like(KERNEL, START_OF_SQUARES), np.zeros_like(KERNEL)
    for ids, factor in zip(IDS, FACTORS, strict=True):
        to_table, to_kernel = np.zeros_like(table), factor * table[ids].sum(axis=0)
        np.add.at(to_table, ids, factor * kernel)
        asked = np.isin(np.arange(ROWS), ids)[:, np.newaxis]
        moved, sums = _next(table, to_table, of_table, l1=l1, l2=l2)
        # Other rows keep what they have, their sums too.
        table = np.where(asked, moved, table)
        of_table = tuple(np.where(asked, *both) for both in zip(sums, of_table, strict=True))
        kernel, of_kernel = _next(kernel, to_kernel, of_kernel, l1=l1, l2=l2)
        yield {
            **{"table": table, "table/Ftrl": of_table[0], "table/Ftrl_1": of_table[1]},
            **{"kernel": kernel, "kernel/Ftrl": of_kernel[0], "kernel/Ftrl_1": of_kernel[1]},
        }


def _checkpoints(folder, l1, l2):
    """Returns a reader of the checkpoint after each step."""
    how = optimizers.Updates("ftrl", RATE, settings=Optimizer(name="ftrl", l1=l1, l2=l2))
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", initializer=tf.constant(TABLE, tf.float32))
        kernel = v1.get_variable("kernel", initializer=tf.constant(KERNEL, tf.float32))
        ids, factor = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [])
        loss = factor * tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * kernel)
        update = optimizers.train_op(loss, how)
        saver = v1.train.Saver(max_to_keep=STEPS)
        session.run(v1.global_variables_initializer())
        paths = []
        for step in range(STEPS):
            session.run(update, {ids: IDS[step], factor: FACTORS[step]})
            paths.append(saver.save(session, str(folder / "model.ckpt"), step))
    return list(map(tf.train.load_checkpoint, paths))


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.7), (0.4, 0.7)])
def test_each_checkpoint_follows_the_formula(tmp_path, l1, l2):
    found = _checkpoints(tmp_path, l1, l2)
    wanted = list(_expected(l1, l2))
    for reader, values in zip(found, wanted, strict=True):
        for name, value in values.items():
            np.testing.assert_allclose(
                reader.get_tensor(name), value, rtol=1e-5, atol=1e-6, err_msg=name
            )
    # Only l1 makes parameters exactly zero, and of a table those of rows that were asked for.
    zero = found[-1].get_tensor("table") == 0
    assert zero[:-1].any() == (l1 > 0) and not zero[-1].any()
