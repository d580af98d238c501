"""One step of N replicas is one step on the whole batch, in every synchronous mode.

The whole batch is that of the records all replicas read; what it does to the variables is
worked out with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config.strategy_table import STRATEGIES
from tests import reading
from tests.e2e.conftest import RATE, modes
from trainer.input.dataset import RecordDataset

STEPPING = [name for name, row in STRATEGIES.items() if not row.asynchronous]
GANGS = [name for name in STEPPING if STRATEGIES[name].own_evaluator]


@pytest.mark.parametrize("mode", modes(*STEPPING))
def test_a_step_of_all_replicas_is_a_step_on_the_whole_batch(run_of, small_records, mode):
    run = run_of(mode)
    before, after = run.first_step()
    expected = _after_step(before, *_whole_batch(run, small_records, mode))
    for name, value in expected.items():
        np.testing.assert_allclose(after[name], value, rtol=0, atol=1e-6, err_msg=name)
        # The step must be larger than the tolerance, or it would show nothing.
        assert np.abs(after[name] - before[name]).max() > 1e-4


@pytest.mark.parametrize("mode", modes(*GANGS))
def test_all_processes_have_the_same_variables_after_it(run_of, mode):
    for chief, worker in zip(
        run_of(mode).first_step(), run_of(mode).first_step("worker-0"), strict=True
    ):
        for name, value in chief.items():
            np.testing.assert_array_equal(worker[name], value, err_msg=name)


def test_all_copies_of_mirrored_variables_are_equal(run_of):
    _, after = run_of("mirrored").first_step()
    copies = [name for name in after if name.endswith("/replica_1")]
    assert len(copies) == 4
    for name in copies:
        np.testing.assert_array_equal(after[name], after[name.removesuffix("/replica_1")])


def _whole_batch(run, small, mode):
    """Returns images, `[batch, 784]` in 0 to 1, and labels."""
    row = STRATEGIES[mode]
    # With servers each process takes from the records what it can use, and has kept it.
    tasks = ("chief-0", "worker-0") if row.servers else ()
    kept = [run.first_batch(task) for task in tasks]
    images = [one["image"].reshape(len(one["label"]), -1) / 255.0 for one in kept]
    labels = [one["label"] for one in kept]
    if kept:
        return np.concatenate(images), np.concatenate(labels)
    records = RecordDataset(run.job, small.folder, small.contents)
    readers = 2 if row.reduces_between_processes else 1
    for rank in range(readers):
        with tf.Graph().as_default():
            dataset = reading.train_dataset(records, rank, readers)
            for features, label in reading.batches(dataset, 2 if row.replicates else 1):
                images.append(features["image"].reshape(len(label), -1) / 255.0)
                labels.append(label)
    return np.concatenate(images), np.concatenate(labels)


def _after_step(before, images, labels):
    """One step of gradient descent on the mean cross-entropy of a 784-100-10 network."""
    names = ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")
    w1, b1, w2, b2 = (before[name].astype(np.float64) for name in names)
    hidden = 1 / (1 + np.exp(-(images @ w1 + b1)))
    logits = hidden @ w2 + b2
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    error = (chances - np.eye(10)[labels]) / len(labels)
    inner = (error @ w2.T) * hidden * (1 - hidden)
    gradients = (images.T @ inner, inner.sum(axis=0), hidden.T @ error, error.sum(axis=0))
    values = zip(names, (w1, b1, w2, b2), gradients, strict=True)
    return {name: value - RATE * gradient for name, value, gradient in values}
