"""Targets: which are understood, and which topology is chosen."""

from __future__ import annotations

import dataclasses
import re

import pytest

from pipeline import errors
from pipeline.planning import costs, page, prediction, target
from pipeline.planning.demands import Machines
from tests.pipeline.planning.measured import calibration
from tests.pipeline.planning.outlooks import MACHINES, outlooks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("examples_per_secnd=5", "must be one of examples_per_second=…, hours=…, usd=… .did you"),
        ("hours", "must be one of"),
        ("hours=soon", "'soon' must be a number above 0"),
        ("usd=-1", "'-1' must be a number above 0"),
        ("usd=nan", "'nan' must be a number above 0"),
    ],
)
def test_other_targets_are_refused(text, message):
    with pytest.raises(errors.UsageError, match=message):
        target.parse(text)


def test_the_smallest_that_is_fast_enough_is_chosen():
    found = outlooks()
    wanted = target.Target("examples_per_second", found[2].useful_low)
    assert target.choose(wanted, found) is found[2]


def test_hours_and_money_go_by_the_cautious_end():
    found = outlooks()
    assert target.choose(target.Target("hours", found[1].hours[1]), found) is found[1]
    cheapest = min(one.usd[1] for one in found)
    assert target.choose(target.Target("usd", cheapest), found).usd[1] == cheapest


def test_a_target_out_of_reach_names_the_nearest():
    with pytest.raises(
        errors.UsageError,
        match=r"none of the 4 topologies is sure to reach it; the fastest, parameter_server with 8 "
        r"workers, 1 server, reaches [\d,]+ examples/s, [\d.]+ hours, [\d.]+ USD, limited by",
    ):
        target.choose(target.parse("hours=0.001"), outlooks())


def test_what_was_not_measured_meets_no_target():
    slow = Machines(server=8, worker=8, server_link=200e6)
    found = outlooks([2, 60], slow)
    assert found[1].predicted.is_bound
    assert target.choose(target.parse("examples_per_second=1"), found) is found[0]
    assert target.find_fastest(found) is found[0]


def test_preemptions_take_their_share():
    calm, shaken = (outlooks(preemptions=rate)[0] for rate in (0.0, 2.0))
    assert shaken.training_share < calm.training_share < 1
    assert shaken.hours[0] > calm.hours[0]


def test_the_share_that_trains_counts_the_start_and_the_end_of_a_job_whose_length_is_known():
    """As in reports. Here a start takes 10 s and an evaluation 5 s."""
    [short] = outlooks([1], examples=1e4, save_examples=1e9)
    [endless] = outlooks([1], examples=None, save_examples=1e9)
    training = 1e4 / short.predicted.rate
    assert short.training_share == pytest.approx(training / (training + 15), rel=1e-3)
    assert endless.training_share == pytest.approx(1, abs=1e-3)
    assert short.kept == endless.kept


def test_short_times_are_reported_in_seconds():
    [row] = page.lines(outlooks([1], examples=1e4))[1:]
    assert re.search(r"\d\d s ", row), row
    [row] = page.lines(outlooks([1], examples=None))[1:]
    assert " s " not in row


def test_the_knee_is_where_workers_stop_helping():
    slow = Machines(server=8, worker=8, server_link=100e6)
    found = [one.predicted for one in outlooks([1, 2, 4, 8, 16], slow)]
    assert costs.knee(found).workers == 4
    assert costs.knee(found[:2]).workers == 2


def knees(workers, machines=MACHINES, strategy="parameter_server", **changes):
    found = calibration(strategy, **changes)
    job, servers = costs.Workload(1e7, 1e5), int(found.has_servers)
    return page.knees(
        [
            costs.outlook(found, job, prediction.predict(found, machines, count, servers=servers))
            for count in workers
        ]
    )


def test_workers_that_help_are_known_by_a_comparison():
    assert knees([1, 2, 4]) == ["parameter_server, 1 server: each worker still helps at 4"]
    assert knees([4]) == []
    [line] = knees([1, 2, 16, 60], Machines(server=8, worker=8, server_link=100e6))
    assert "each adds less than half of what the first do" in line


_STARVED = {"rate": 5.0, "rates": [5.0] * 4, "periods": [0.2], "seconds": {"input": 0.15}}


@pytest.mark.parametrize(
    "case",
    [
        # Four processes keep it busy for 99 % of the time, and two for half of that.
        {
            "workers": [1, 3],
            "machines": Machines(shared=4, disk=8e6),
            "strategy": "multi_worker_mirrored",
        },
        {"workers": [1, 3], "strategy": "parameter_server_sync", **_STARVED},
        {"workers": [1, 3], "strategy": "multi_worker_mirrored", **_STARVED},
        {"workers": [1, 11], "rates": [1, 40, 1, 40]},
    ],
    ids=["full storage", "starved servers", "starved all-reduce", "rates that vary"],
)
def test_nothing_is_reported_of_workers_without_evidence(case):
    assert knees(**case) == []


def test_workers_with_an_input_each_help():
    [line] = knees([1, 3], **_STARVED)
    assert line == "parameter_server, 1 server: each worker still helps at 3"


def test_a_page_without_a_knee_has_no_section_for_it():
    assert "Knee" in page.render("Plan", outlooks(), [calibration()], lead="", chosen=None)
    assert "Knee" not in page.render("Plan", outlooks([2]), [calibration()], lead="", chosen=None)


def test_the_page_has_a_row_for_each_and_the_lines_to_paste():
    found = outlooks()
    text = page.render("Plan", found, [calibration()], lead="a <b>", chosen=found[1])
    assert text.count("<tr>") == 5
    assert "cluster:\n  strategy: parameter_server\n  workers: 2\n  ps: 1" in text
    assert "a &lt;b&gt;" in text
    for line in page.lines(found)[1:]:
        assert " to " in line  # never a bare number


def test_a_dashed_line_ends_at_the_bound_that_the_table_has(monkeypatch):
    drawn = []
    line = page.Frame.line

    def noted(frame, points, color, **more):
        points = list(points)
        drawn.extend(points if more.get("dashed") else [])
        return line(frame, points, color, **more)

    monkeypatch.setattr(page.Frame, "line", noted)
    *known, last = outlooks()
    bound = dataclasses.replace(last.predicted, high=2 * last.predicted.rate, is_bound=True)
    found = [*known, dataclasses.replace(last, predicted=bound)]
    page.render("Plan", found, [calibration()], lead="", chosen=None)
    assert drawn[-1] == (bound.workers, bound.high)
    assert f"at most {bound.high:,.0f}" in page.lines(found)[-1]


def test_a_page_says_what_machines_it_is_for():
    own = Machines(server=4, worker=4, server_link=125e6, worker_link=125e6, disk=200e6)
    assert page.limits(own, machine="n1-standard-4", preemptions=2.0) == (
        "4 cores for each process, links of 1000 Mbit/s, storage of 200 MB/s, "
        "the price of n1-standard-4, each machine lost 2 times a day"
    )
    assert page.limits(Machines(shared=2), machine="", preemptions=0.0) == "the same cores"
