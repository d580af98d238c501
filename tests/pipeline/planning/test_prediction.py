"""Predictions from measured demands, against what these demands must come to."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.planning import prediction, queueing
from pipeline.planning.demands import Machines
from pipeline.planning.queueing import Station
from tests.pipeline.planning.measured import CORES, calibration, run


def test_what_was_measured_is_predicted():
    found = calibration()
    for one in found.runs:
        predicted = prediction.predict(found, found.machines, one.workers, servers=1)
        assert predicted.rate == pytest.approx(100 * one.total_rate, rel=1e-6)
        assert predicted.low < predicted.rate < predicted.high


def test_more_workers_are_as_the_model_has_them():
    found = calibration()
    predicted = prediction.predict(found, found.machines, 9, servers=1)
    station = Station("host cores", 0.010, CORES)
    assert predicted.rate == pytest.approx(100 * queueing.solve(0.04, [station], 10).rate, rel=1e-6)
    assert predicted.bottleneck == "worker"


@pytest.mark.parametrize(
    ("machines", "named", "most"),
    [
        (Machines(server=1, worker=1), "server processor", 1 / 0.006),
        (Machines(server=8, worker=8, server_link=20e6), "server link", 20e6 / 1e6),
        (Machines(shared=1), "host cores", 1 / 0.010),
        (Machines(server=8, worker=8, disk=2e6), "storage", 2e6 / 1e5),
    ],
)
def test_each_shared_resource_is_named_when_it_is_full(machines, named, most):
    predicted = prediction.predict(calibration(), machines, 60, servers=1)
    assert predicted.bottleneck == named
    assert predicted.rate / 100 == pytest.approx(most, rel=0.02)
    assert predicted.is_bound  # it was not full when it was measured


def test_servers_share_the_work():
    machines = Machines(server=8, worker=8, server_link=20e6)
    one, four = (
        prediction.predict(calibration(), machines, 60, servers=servers) for servers in (1, 4)
    )
    assert four.rate == pytest.approx(4 * one.rate, rel=0.03)
    assert four.server_memory < one.server_memory


def test_a_slow_link_of_each_worker_holds_up_that_worker():
    machines = Machines(server=8, worker=8, worker_link=5e5)  # a second for what it sends
    predicted = prediction.predict(calibration(), machines, 4, servers=1)
    assert predicted.bottleneck == "worker link"
    assert predicted.rate / 100 == pytest.approx(5 / 1.05, rel=0.02)


def test_a_starved_input_limits_each_worker():
    rate = 5.0
    found = calibration(rate=rate, rates=[rate] * 4, seconds={"input": 0.15, "step": 0.05})
    predicted = prediction.predict(found, found.machines, 7, servers=1)
    assert predicted.bottleneck == "input"
    assert predicted.rate / 100 == pytest.approx(8 * rate)


def test_a_saturation_that_was_measured_is_predicted():
    found = calibration(think=0.0001, server_cpu=0.2)
    predicted = prediction.predict(found, found.machines, 40, servers=1)
    assert predicted.bottleneck == "host cores"
    assert predicted.is_bound  # three processes do not fill four cores
    full = found.model_copy(
        update={"machines": Machines(shared=1), "runs": [_full(n) for n in (1, 2)]}
    )
    assert not prediction.predict(full, full.machines, 40, servers=1).is_bound


def _full(workers):
    rate = 0.99 / 0.204 / (workers + 1)
    return run(workers, server_cpu=0.2, rate=rate, rates=[rate] * 4)


def test_synchronous_steps_take_as_long_as_the_slowest():
    periods = [0.05] * 9 + [0.1]
    found = calibration("parameter_server_sync", periods=periods)
    found = found.model_copy(update={"machines": Machines(server=64, worker=64)})
    few, many = (
        prediction.predict(found, found.machines, workers, servers=1) for workers in (2, 11)
    )
    assert few.rate == pytest.approx(100 * 3 / 0.055, rel=0.01)
    slowest = queueing.expected_maximum(periods, 4.0)
    assert many.rate == pytest.approx(100 * 12 / slowest, rel=0.02)


def test_all_reduce_grows_with_each_process_beyond_two():
    found = calibration("multi_worker_mirrored")
    found = found.model_copy(
        update={
            "machines": Machines(),
            "runs": [
                run(n, rate=rate, rates=[rate] * 4, seconds={"exchange": exchange})
                for n, rate, exchange in ((1, 10.0, 0.02), (2, 1 / 0.11, 0.03))
            ],
        }
    )
    predicted = prediction.predict(found, Machines(), 5, servers=0)
    assert predicted.rate == pytest.approx(100 * 6 / (0.08 + 0.02 + 4 * 0.01))
    assert predicted.high > predicted.rate * 1.2  # what overlaps


def test_staleness_is_the_measured_share_of_the_others():
    assert prediction.predict(calibration(), Machines(shared=2), 7, servers=1).staleness == 7.0


def test_four_times_the_calibrated_size_is_the_limit():
    prediction.check_size("workers", [1, 11], 2)
    prediction.check_size("ps", [4], 1)
    with pytest.raises(errors.UsageError, match="at most 11, or give --calibrate_workers=4"):
        prediction.check_size("workers", [1, 16], 2)
    with pytest.raises(errors.UsageError, match="--ps=8: 8 is more than four times what is"):
        prediction.check_size("ps", [8], 1)


def test_no_range_goes_beyond_what_a_full_resource_gives():
    found = calibration()
    predicted = prediction.predict(found, Machines(shared=1), 60, servers=1)
    assert predicted.rate <= predicted.high <= 100 * 100 * 1.06
