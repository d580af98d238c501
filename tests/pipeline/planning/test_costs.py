"""What a topology takes to the end of a job, by who makes a step."""

from __future__ import annotations

import pathlib

import pytest

from pipeline.config import config_file
from pipeline.planning import calibration, costs, page, prediction, target
from pipeline.planning.demands import Machines
from tests.pipeline.planning import measured

_MNIST = pathlib.Path(__file__).resolve().parents[3] / "configs" / "mnist.yaml"


def asked(strategy, workers, *settings, records=0):
    job = config_file.load(str(_MNIST), ["train.batch_size=50", *settings])
    one = calibration.with_processes(job, strategy, workers, servers=1)
    return costs.compute_workload(one, records=records, usd_per_machine=None, preemptions=0.0)


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
def test_epochs_are_so_many_examples_for_any_strategy(strategy):
    epochs = ("train.steps=null", "train.epochs=3")
    assert asked(strategy, 7, *epochs, records=2000).examples == 6000
    assert asked(strategy, 7, *epochs, records=0).examples is None


def outlook(job, machines=None, workers=2):
    found = measured.calibration()
    predicted = prediction.predict(found, machines or found.machines, workers, servers=1)
    return costs.outlook(found, job, predicted)


# Until the first step and after the last one a calibrated run takes so many seconds.
_ENDS = 15.0


def test_seconds_of_training_are_part_of_what_is_asked():
    assert asked("parameter_server", 2, "train.max_seconds=60").max_seconds == 60
    assert asked("parameter_server", 2).max_seconds is None


@pytest.mark.parametrize("examples", [1e9, None], ids=["many examples", "no end"])
def test_training_ends_by_its_seconds(examples):
    one = outlook(costs.Workload(examples, 1e9, usd_per_machine=2.0, max_seconds=3600.0))
    assert one.hours == pytest.approx(((3600 + _ENDS) / 3600,) * 2)
    assert one.usd == pytest.approx([hours * 2.0 * one.predicted.processes for hours in one.hours])
    assert one.training_share == pytest.approx(3600 / (3600 + _ENDS), rel=1e-3)
    assert target.Target("hours", 1.01).is_met(one)
    assert not target.Target("hours", 1.0).is_met(one)


def test_training_ends_by_its_examples_where_these_are_fewer():
    few, limited = (outlook(costs.Workload(1e6, 1e9, max_seconds=most)) for most in (None, 1e7))
    assert few == limited


def test_the_slow_end_of_a_range_may_be_that_of_the_seconds():
    free = outlook(costs.Workload(1e6, 1e9))
    middle = sum(free.hours) / 2
    one = outlook(costs.Workload(1e6, 1e9, max_seconds=3600 * middle - _ENDS))
    assert one.hours == pytest.approx((free.hours[0], middle))


def test_restarts_are_not_among_the_seconds_of_training():
    job = costs.Workload(None, 1e9, preemptions=1.0, max_seconds=3600.0)
    low, high = outlook(job).hours
    assert low == pytest.approx((3600 + _ENDS) / 3600)
    assert high > low


def test_an_unknown_rate_does_not_matter_where_seconds_end_it():
    full = Machines(server=8, worker=8, server_link=20e6)
    free, ended = (
        outlook(costs.Workload(1e9, 1e9, usd_per_machine=2.0, max_seconds=most), full, workers=60)
        for most in (None, 3600.0)
    )
    assert free.predicted.is_bound and ended.predicted.is_bound
    assert not target.Target("hours", 1e6).is_met(free)
    assert target.Target("hours", 1.01).is_met(ended)
    assert not target.Target("examples_per_second", 1.0).is_met(ended)
    for row, over in ((page.lines([free])[1], 2), (page.lines([ended])[1], 0)):
        assert row.count("over ") == over
