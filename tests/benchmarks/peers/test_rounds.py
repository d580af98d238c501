"""The driver, on programs that report at once."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics

from benchmarks.peers import environments, measure, page, rounds, summary
from benchmarks.peers.suites import SUITES, Figure, Program, Suite
from tests.pipeline.process_help import ROOT

SUITE = Suite(
    "fake",
    "A fake",
    lambda root: {"rate": 100.0},
    (
        Program("ours", "ours"),
        Program("other", "another", goal=1.5),
        Program("broken", "a broken one"),
        Program("absent", "one that is not here", without="has no build for this Python"),
    ),
    (Figure("rate", "rows/s"), Figure("cpu", "processor s", "{:.1f}")),
    package="tests.benchmarks.peers.fake_suite",
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    found = {}
    for _ in rounds.run(SUITE, SUITE.programs, found, rounds=2, root=tmp_path_factory.mktemp("s")):
        pass
    return found


def test_each_program_runs_in_each_round_until_it_fails(kept):
    assert [one["rate"] for one in kept["ours"]["rounds"]] == [200.0, 200.0]
    assert [one["rate"] for one in kept["other"]["rounds"]] == [100.0, 100.0]
    assert kept["broken"]["rounds"] == [] == kept["absent"]["rounds"]
    assert "needs another machine" in kept["broken"]["failure"]
    assert "tensorflow" in kept["ours"]["versions"]


def test_the_table_has_ratios_goals_and_reasons(kept):
    table = summary.format_table(summary.list_rows(SUITE, kept), SUITE)
    assert "| another | 100 | 1.5 | 2.00 | ≥ 1.5: met |" in table
    assert "a broken one: RuntimeError: needs another machine" in table
    assert "one that is not here: has no build for this Python" in table


def test_the_page_has_every_program_its_command_and_where_ours_loses(kept, tmp_path, monkeypatch):
    ours, other, *others = SUITE.programs
    other = dataclasses.replace(other, goal=2.5, why="it reads nothing")
    suite = dataclasses.replace(SUITE, programs=(ours, other, *others))
    monkeypatch.setitem(SUITES, "fake", suite)
    shown = page.write(tmp_path, {"fake": kept}).read_text()
    assert all(program.title in shown for program in suite.programs)
    assert "make bench-peers ONLY=fake" in shown
    line = "another: 2.00 of it, the goal is 2.5; it reads nothing"
    assert line in shown
    assert line in summary.format_table(summary.list_rows(suite, kept), suite)
    assert "reads nothing" not in summary.format_table(summary.list_rows(SUITE, kept), SUITE)


def test_the_area_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    label, score = random.integers(0, 2, 500), random.integers(0, 40, 500)  # with equal scores
    truth = sklearn.metrics.roc_auc_score(label, score)
    assert measure.compute_auc(label, score) == pytest.approx(truth, abs=1e-12)


def test_processor_seconds_are_those_of_descendants_too(monkeypatch):
    monkeypatch.setenv(measure.ROOT, str(os.getpid()))
    before = measure.read_processor_seconds()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert measure.read_processor_seconds() - before >= 0.25


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_program_and_every_environment_exists(suite):
    for program in suite.programs:
        path = f"{suite.module(program).replace('.', '/')}.py"
        assert program.without or (ROOT / path).is_file()
        if program.environment != environments.OWN:
            pinned = (environments.REQUIREMENTS / f"{program.environment}.txt").read_text().split()
            assert all("==" in line for line in pinned)
