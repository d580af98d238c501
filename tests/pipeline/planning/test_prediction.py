"""Predictions from measured demands, against what these demands must come to."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.planning import costs, demands, ethernet, page, prediction, queueing
from pipeline.planning.demands import Machines
from pipeline.planning.further_server import FurtherServer
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


def test_each_further_server_costs_a_step_something():
    found = calibration().model_copy(
        update={"further_server": FurtherServer(worker=0.001, server=0.002)}
    )
    host, apart = Machines(shared=4), Machines(server=1, worker=8)

    def rate(machines, servers):
        return prediction.predict(found, machines, 60, servers=servers).rate / 100

    # As measured with one server, of 4 and 6 ms; each further one takes 1 and 2 ms more.
    assert rate(host, 1) == pytest.approx(4 / 0.010, rel=0.01)
    assert rate(host, 2) == pytest.approx(4 / 0.013, rel=0.01)
    assert rate(host, 4) == pytest.approx(4 / 0.019, rel=0.01)
    # Servers with processors of their own share 6 ms, and 2 more for each further one.
    assert rate(apart, 1) == pytest.approx(1 / 0.006, rel=0.01)
    assert rate(apart, 4) == pytest.approx(4 / 0.012, rel=0.01)


def test_fewer_servers_than_were_measured_cost_less():
    runs = [run(workers, servers=2) for workers in (1, 2)]
    more = FurtherServer(worker=0.001, server=0.002)
    found = calibration().model_copy(update={"runs": runs, "further_server": more})
    assert found.worker_cpu(1) == pytest.approx(0.003)
    assert found.server_cpu(1) == pytest.approx(0.004)
    assert found.server_cpu(2) == pytest.approx(0.006)


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


_TOGETHER = ["parameter_server_sync", "multi_worker_mirrored"]
# A batch takes 0.4 s to be read, a step 0.05 s; the state in which processes wait differs.
_STARVED = {
    "each waits for its own input": {"input": 0.35, "step": 0.05},
    "one waits, others for its gradients": {"input": 0.17, "step": 0.02, "exchange": 0.21},
    "its input is late by little": {"input": 0.035, "step": 0.3, "exchange": 0.065},
}


@pytest.mark.parametrize("strategy", _TOGETHER)
@pytest.mark.parametrize("case", _STARVED)
@pytest.mark.parametrize("workers", [1, 4, 11])
@pytest.mark.parametrize(
    "machines", [Machines(shared=CORES), Machines(server=8, worker=8, worker_link=1e9)], ids=str
)
def test_processes_that_step_together_are_no_faster_than_their_input(
    strategy, case, workers, machines
):
    seconds = _STARVED[case]
    found = calibration(
        strategy,
        rate=2.5,
        rates=[2.45, 2.55, 2.48, 2.52],
        seconds=seconds,
        longest_input=0.4 - seconds["step"],
        periods=[0.15, *[0.4] * 20, 0.65],
    )
    one = prediction.predict(found, machines, workers, servers=int(found.has_servers))
    assert one.bottleneck == "input"
    assert one.low < one.rate <= one.high <= 100 * (workers + 1) / 0.4 * (1 + 1e-9)
    assert one.rate == pytest.approx(100 * (workers + 1) / 0.4, rel=0.35)


@pytest.mark.parametrize("strategy", _TOGETHER)
def test_an_input_that_only_the_smaller_run_waited_for_limits_a_plan(strategy):
    found = calibration(strategy, rate=2.5, rates=[2.5] * 4, periods=[0.4], seconds={"step": 0.4})
    starved = {"input": 0.2, "step": 0.2}
    runs = [run.model_copy(update={"seconds": starved}) for run in found.runs[:1]]
    found = found.model_copy(update={"runs": [*runs, *found.runs[1:]]})
    one = prediction.predict(found, Machines(server=8, worker=8), 1, servers=int(found.has_servers))
    assert one.high <= 100 * 2 / 0.4 * (1 + 1e-9)


@pytest.mark.parametrize("strategy", _TOGETHER)
def test_a_batch_is_read_while_gradients_are_sent(strategy):
    """Of 0.4 s between two batches 0.05 s are computed; sending takes 1 s more."""
    seconds = {"input": 0.35, "step": 0.05}
    found = calibration(strategy, rate=2.5, rates=[2.5] * 4, seconds=seconds, periods=[0.4])
    link = demands.compute_own_demands(found, Machines(worker_link=1.0), 3, servers=1).link
    one = prediction.predict(
        found, Machines(shared=64, worker_link=link), 2, servers=int(found.has_servers)
    )
    assert one.bottleneck == "worker link"
    assert one.rate / 100 == pytest.approx(3 / 1.05, rel=0.03)


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
    slowest = queueing.compute_expected_maximum(periods, 4.0)
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


@pytest.mark.parametrize(
    ("measured", "predicted", "shown"),
    [
        ((1.0, 2.0), (7.0, 7.0), "7.0"),
        # A run in which no update of another came between is as good as the other.
        ((0.0, 1.0), (0.0, 3.5), "0.0 to 3.5"),
        ((0.0, 0.0), (0.0, 0.0), "0.0"),
        ((None, 1.0), None, "-"),
        ((None, None), None, "-"),
    ],
)
def test_staleness_reaches_over_the_shares_that_were_measured(measured, predicted, shown):
    found = calibration()
    for one, late in zip(found.runs, measured, strict=True):
        one.staleness = late
    topology = prediction.predict(found, Machines(shared=2), 7, servers=1)
    assert topology.staleness == predicted
    asked = costs.Workload(examples=1e7, save_examples=1e5, usd_per_machine=0.5)
    head, line = page.lines([costs.outlook(found, asked, topology)])
    end = head.index("staleness") + len("staleness")
    assert line[:end].endswith(f"  {shown}")


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


# (strategy, disk, workers): low, rate, high, bottleneck.
_WITHOUT_LIMITS = {
    ("parameter_server", None, 4): (9027.2235, 9885.787, 10744.3506, "worker"),
    ("parameter_server", 2e6, 4): (1820.5529, 1993.7025, 2100.0, "storage"),
    ("parameter_server_sync", None, 1): (3733.432, 3929.9284, 4000.0, "worker"),
    ("parameter_server_sync", None, 9): (10486.8621, 12149.5003, 18535.5481, "worker"),
    ("parameter_server_sync", 2e6, 4): (1506.5907, 1649.8799, 1823.7851, "storage"),
    ("multi_worker_mirrored", None, 1): (3790.5237, 3990.0249, 6959.4629, "worker"),
    ("multi_worker_mirrored", None, 9): (16851.9272, 19523.7139, 42000.0, "worker"),
    ("multi_worker_mirrored", 2e6, 4): (1826.3034, 2000.0, 2100.0, "storage"),
}


@pytest.mark.parametrize("case", _WITHOUT_LIMITS, ids=str)
def test_links_and_cores_change_nothing_where_they_are_not_given(case):
    """What the model came to before it had them, on cores that all share."""
    strategy, disk, workers = case
    changes = {
        "parameter_server_sync": {"periods": [0.05] * 9 + [0.1]},
        "multi_worker_mirrored": {"seconds": {"exchange": 0.02}},
    }
    found = calibration(strategy, **changes.get(strategy, {}))
    servers = int(found.has_servers)
    one = prediction.predict(found, Machines(shared=4, disk=disk), workers, servers=servers)
    low, rate, high, bottleneck = _WITHOUT_LIMITS[case]
    assert (one.low, one.rate, one.high) == pytest.approx((low, rate, high), abs=1e-3)
    assert one.bottleneck == bottleneck


STRATEGIES = ["parameter_server", "parameter_server_sync", "multi_worker_mirrored"]


def _predicted(strategy, machines, workers=3, **changes):
    found = calibration(strategy, **changes)
    return prediction.predict(found, machines, workers, servers=int(found.has_servers))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_few_cores_hold_up_a_worker(strategy):
    """A step takes 4 ms of a processor: 0.4 s of a hundredth of one."""
    one = _predicted(strategy, Machines(server=8, worker=0.01))
    assert one.bottleneck == "worker processor"
    assert one.rate / 100 <= 4 / 0.4 * (1 + 1e-9)
    assert one.high / 100 <= 4 / 0.4 * 1.05 * (1 + 1e-9)
    # The rest of a measured step, of 46 ms, stays what it was.
    assert one.rate / 100 == pytest.approx(4 / 0.44, rel=0.03)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_cores_than_a_step_keeps_busy_bring_nothing(strategy):
    one, many = (_predicted(strategy, Machines(server=8, worker=cores)) for cores in (1, 64))
    assert one.rate == many.rate
    assert one.bottleneck == many.bottleneck == "worker"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_that_kept_several_cores_busy_is_slower_on_fewer(strategy):
    """A step of 50 ms that takes 150 ms of a processor: three cores at once."""
    busy = {"rate": 20.0, "rates": [20.0] * 4, "periods": [0.05], "worker_cpu": 0.15}
    found = calibration(strategy, **busy)
    found = found.model_copy(update={"machines": Machines(shared=64)})
    four, one = (
        prediction.predict(
            found, Machines(server=8, worker=cores), 2, servers=int(found.has_servers)
        )
        for cores in (4, 1)
    )
    assert four.rate / 100 == pytest.approx(3 * 20, rel=0.15)
    assert one.rate / 100 == pytest.approx(3 / 0.15, rel=0.06)
    assert one.bottleneck == "worker processor"


def test_gradients_that_meet_on_servers_go_over_the_link_of_each_worker():
    machines = Machines(shared=4, worker_link=5e5)  # a second for what it sends
    one = _predicted("parameter_server_sync", machines)
    assert one.bottleneck == "worker link"
    assert one.rate / 100 == pytest.approx(4 / 1.046, rel=0.02)


def _reduced(machines, workers, pushed):
    """Prediction of an all-reduce of which two and three processes sent so many bytes each."""
    found = calibration("multi_worker_mirrored")
    runs = [run(n, pushed=sent) for n, sent in zip((1, 2), pushed, strict=True)]
    found = found.model_copy(update={"runs": runs})
    return prediction.predict(found, machines, workers, servers=0)


@pytest.mark.parametrize("workers", [1, 2, 11])
def test_a_ring_sends_dense_gradients_twice_but_for_its_own_part(workers):
    processes = workers + 1
    one = _reduced(Machines(shared=64, worker_link=1e6), workers, (1e6, 4e6 / 3))
    wire = 2 * (processes - 1) / processes
    assert one.bottleneck == "worker link"
    assert one.rate / 100 == pytest.approx(processes / (wire + 0.045), rel=0.02)
    # However much of it computing hides, a step takes as long as its bytes.
    assert one.high / 100 <= processes / wire * 1.05 * (1 + 1e-9)


def test_a_ring_sends_sparse_gradients_to_each_other():
    one = _reduced(Machines(shared=64, worker_link=1e6), 11, (1e6, 2e6))
    assert one.rate / 100 == pytest.approx(12 / (11 + 0.045), rel=0.02)


def test_a_fast_link_does_not_hold_up_an_all_reduce():
    slow, free = (
        _reduced(Machines(shared=4, worker_link=link), 3, (1e6, 4e6 / 3)) for link in (1e12, None)
    )
    assert slow.rate == pytest.approx(free.rate, rel=1e-4)
    assert slow.bottleneck == free.bottleneck == "worker"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_network_adds_headers_and_acknowledgements_to_what_a_worker_sends(strategy):
    changes = {"pushed": 1e6, "pulled": 4e5}
    found = calibration(strategy, **changes)
    plain, real = (
        demands.compute_own_demands(
            found, Machines(shared=4, worker_link=1e6, ethernet=ethernet_), 2, servers=1
        ).link
        for ethernet_ in (False, True)
    )
    received = 4e5 if found.has_servers else plain * 1e6
    assert real == pytest.approx(ethernet.count_wire_bytes(plain * 1e6, received=received) / 1e6)


def test_a_network_adds_headers_and_acknowledgements_to_what_a_server_sends():
    found = calibration(pushed=1e6, pulled=4e5)
    machines = Machines(server_link=1e6, ethernet=True)
    [link] = demands.stations(found, machines, 2)
    assert link.demand == pytest.approx(ethernet.count_wire_bytes(4e5, received=1e6) / 2 / 1e6)


# Of a step of 8 examples and 240,000 parameters, computed in 0.206 s, in this many processes: bytes
# counted on a loopback, then examples a second over real links of 8 Mbit/s.
_REAL = {2: (952_784.0, (12.3, 11.9)), 3: (1_286_490.0, (13.9,))}


@pytest.mark.parametrize("processes", _REAL)
def test_an_all_reduce_over_a_real_link_is_in_its_range(processes):
    rate = 4.6865
    runs = [
        run(
            number - 1,
            rate=rate,
            rates=[4.57, 4.64, 4.8, 4.74],
            worker_cpu=0.0057,
            server_cpu=0.0,
            pushed=pushed,
            seconds={"step": 0.206, "exchange": 0.005},
        )
        for number, (pushed, _) in _REAL.items()
    ]
    found = calibration("multi_worker_mirrored")
    found = found.model_copy(
        update={"runs": runs, "examples_per_process": 8, "machines": Machines(shared=2)}
    )
    machines = Machines(shared=2, worker_link=1e6, ethernet=True)
    one = prediction.predict(found, machines, processes - 1, servers=0)
    for measured in _REAL[processes][1]:
        assert one.low < measured < one.high
    assert one.bottleneck == "worker link"
    # A faster link is full of the same bytes for less time, and its requests wait for less.
    fast = machines.model_copy(update={"worker_link": 1e9})
    free = prediction.predict(found, fast, processes - 1, servers=0)
    assert free.low / free.rate > 0.9


def test_a_link_for_bytes_that_were_not_counted_is_refused():
    with pytest.raises(
        errors.UsageError,
        match=r"^multi_worker_mirrored: the bytes of a step were not counted.* without LINK=",
    ):
        _reduced(Machines(shared=4, worker_link=1e6), 3, (0.0, 0.0))
    assert _reduced(Machines(shared=4), 3, (0.0, 0.0)).rate
