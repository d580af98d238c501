"""The page of the reference experiments, from made-up figures."""

from __future__ import annotations

import pytest

from benchmarks import reference, reference_page
from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table

ACCURACIES = {1: 0.96, 2: 0.97, 3: 0.98}


@pytest.fixture
def found(tmp_path):
    """A line of each cell."""
    bench = reference.Bench(tmp_path / "reference")
    names = [cell.name for cell in reference.plan(bench)]
    assert len(set(names)) == len(names)
    return {
        name: {"load": [number, 1.0], "result": _result(name)} for number, name in enumerate(names)
    }


def _result(name):
    if name == "products":
        return {"products": [{"device": "CPU:0", "size": 8, "dtype": "float32", "flops": 5e9}]}
    if name.startswith("study"):
        last = ACCURACIES[int(name[-1])]
        return {"accuracy": [0.9, last], "examples": [500, 1000], "seconds": [2.0, 4.0]}
    rate = 1000.0 if "one core" in name else 1600.0
    return {"rate": rate, "first_step": 3.0, "epoch": 2.0}


def test_figures_are_held_against_what_was_published(found):
    rows = {row.name: row for row in reference.list_results(found)}
    assert rows["central_storage of 2 devices"].value == pytest.approx(80)
    assert rows["parameter_server of 2 devices"].ratio == pytest.approx(80 / 50)
    assert rows["asynchronous accuracy"].ratio == pytest.approx(1)
    assert all(row.met for row in rows.values())


def test_intervals_are_students():
    """scipy.stats.t.interval(0.95, 2, 0.97, scale=0.01 / 3 ** 0.5)."""
    middle, half = reference_page.compute_interval(list(ACCURACIES.values()))
    assert (middle - half, middle + half) == pytest.approx((0.945159, 0.994841), abs=1e-5)


def test_the_page_has_all_experiments_and_the_load(found, tmp_path):
    text = reference_page.write(tmp_path, found).read_text()
    last = len(found) - 1
    assert f"It was 0 to {last}, {last / 2:g} in half." in text
    for part in ("0.9700 ± 0.0248", "1,600", "0.80 (in-graph)", "2 replicas, scaled batch 64"):
        assert part in text
    assert text.count("<svg") == 3


@pytest.mark.parametrize("strategy", strategy_table.STRATEGIES)
def test_the_study_has_two_replicas_at_most(strategy):
    job = config_file.load("mnist", reference.list_study_settings(strategy, 1))
    mode = strategy_table.STRATEGIES[strategy]
    together = mode.replicates or (mode.own_evaluator and mode.synchronous)
    assert topology.examples_per_step(job) == (256 if together else 128)
