"""Operational analysis against closed forms and published results."""

from __future__ import annotations

import math
import random

import pytest

from pipeline.planning import queueing
from pipeline.planning.queueing import Station


def test_two_balanced_stations_have_their_closed_form():
    """N customers at K equal stations of demand D: N / (D (N + K - 1)); Lazowska et al., 5.4."""
    for customers in (1, 2, 5, 40):
        stations = [Station("a", 0.5), Station("b", 0.5)]
        solved = queueing.solve(0.0, stations, customers)
        assert solved.rate == pytest.approx(customers / (0.5 * (customers + 1)))


def test_two_stations_are_as_their_states_have_it():
    """Of two stations without think time the number at the first is a truncated geometric."""
    first, second, customers = 0.3, 0.2, 7
    weights = [first**n * second ** (customers - n) for n in range(customers + 1)]
    idle = weights[0] / sum(weights)
    solved = queueing.solve(0.0, [Station("a", first), Station("b", second)], customers)
    assert solved.busy["a"] == pytest.approx(1 - idle)
    assert solved.rate == pytest.approx((1 - idle) / first)


def test_one_station_with_think_time_is_the_machine_repair_model():
    """Its idle share is Erlang's loss formula of the offered load."""
    think, demand, customers = 2.0, 0.5, 6
    load, lost = think / demand, 1.0
    for n in range(1, customers + 1):
        lost = load * lost / (n + load * lost)
    solved = queueing.solve(think, [Station("a", demand)], customers)
    assert solved.busy["a"] == pytest.approx(1 - lost)


def test_rates_lie_between_the_bounds():
    rng = random.Random(1)
    for _ in range(200):
        stations = [Station(str(n), rng.uniform(0.01, 1)) for n in range(rng.randint(1, 4))]
        think, customers = rng.uniform(0, 3), rng.randint(1, 30)
        low, high = queueing.bounds(think, stations, customers)
        assert low - 1e-9 <= queueing.solve(think, stations, customers).rate <= high + 1e-9


def test_one_process_never_waits():
    stations = [Station("a", 0.3, copies=2), Station("b", 0.1)]
    assert queueing.solve(1.0, stations, 1).rate == pytest.approx(1 / 1.4)
    assert queueing.bounds(1.0, stations, 1) == pytest.approx((1 / 1.4, 1 / 1.4))


def test_two_cores_do_twice_the_work():
    solved = queueing.solve(0.1, [Station("a", 1.0, copies=2)], 100)
    assert solved.rate == pytest.approx(2.0, rel=1e-3)


def test_half_a_core_takes_twice_as_long():
    assert queueing.solve(0.0, [Station("a", 1.0, copies=0.5)], 1).rate == pytest.approx(0.5)


def test_the_think_time_is_found_again():
    stations = [Station("a", 0.3, copies=2), Station("b", 0.2)]
    rate = queueing.solve(0.7, stations, 3).rate
    assert queueing.think_time(rate, stations, 3) == pytest.approx(0.7)


def test_stations_slower_than_measured_leave_no_think_time():
    assert queueing.think_time(10.0, [Station("a", 1.0)], 2) == 0.0


def test_the_maximum_of_uniform_draws_has_its_mean():
    values = [(n + 0.5) / 1000 for n in range(1000)]
    for copies in (1, 2, 7):
        expected = copies / (copies + 1)
        assert queueing.compute_expected_maximum(values, copies) == pytest.approx(
            expected, abs=1e-3
        )


def test_the_maximum_of_one_draw_is_the_mean():
    assert queueing.compute_expected_maximum([3.0, 1.0, 2.0], 1.0) == pytest.approx(2.0)


def test_overlap_hides_the_shorter_part():
    assert queueing.compute_all_reduce_seconds(3.0, 4.0, 1.0) == pytest.approx(7.0)
    assert queueing.compute_all_reduce_seconds(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert queueing.compute_all_reduce_seconds(3.0, 4.0, 200.0) == pytest.approx(4.0)
    assert queueing.compute_all_reduce_seconds(3.0, 0.0, 5.0) == 3.0
    assert math.isfinite(queueing.compute_all_reduce_seconds(1e-9, 1e3, 10.0))
