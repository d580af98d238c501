"""What a topology takes to the end of a job, by who makes a step."""

from __future__ import annotations

import pathlib

import pytest

from pipeline.config import config_file
from pipeline.planning import calibration, costs

_MNIST = pathlib.Path(__file__).resolve().parents[3] / "configs" / "mnist.yaml"


def asked(strategy, workers, *settings, records=0):
    job = config_file.load(str(_MNIST), ["train.batch_size=50", *settings])
    one = calibration.with_processes(job, strategy, workers, servers=1)
    return costs.asked(one, records=records, usd_per_machine=None, preemptions=0.0)


@pytest.mark.parametrize("strategy", ["parameter_server_sync", "multi_worker_mirrored"])
@pytest.mark.parametrize("workers", [1, 7])
def test_a_synchronous_step_has_a_batch_of_each_process_that_trains(strategy, workers):
    found = asked(
        strategy, workers, "train.steps=1000", "train.epochs=null", "train.save_steps=100"
    )
    assert found.examples == 1000 * 50 * (workers + 1)
    assert found.save_examples == 100 * 50 * (workers + 1)


@pytest.mark.parametrize("strategy", ["parameter_server", "parameter_server_strategy"])
def test_an_asynchronous_step_has_one_batch(strategy):
    found = asked(strategy, 7, "train.steps=1000", "train.epochs=null", "train.save_steps=100")
    assert (found.examples, found.save_examples) == (1000 * 50, 100 * 50)


@pytest.mark.parametrize("strategy", ["parameter_server", "multi_worker_mirrored"])
def test_epochs_are_so_many_examples_whoever_trains(strategy):
    epochs = ("train.steps=null", "train.epochs=3")
    assert asked(strategy, 7, *epochs, records=2000).examples == 6000
    assert asked(strategy, 7, *epochs, records=0).examples is None
