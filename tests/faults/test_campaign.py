"""What a soak does to a run, without one."""

from __future__ import annotations

import collections
import itertools
import random

import pytest

from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from tests.faults import campaign, moments, soak_table, verdict


@pytest.mark.parametrize("mode", campaign.SIZES)
def test_every_role_is_killed_at_every_moment(mode):
    job = config_file.load("mnist_mlp", [f"cluster.strategy={mode}", "train.batch_size=32"])
    (faults, steps), *finals = campaign.matrix(job, random.Random(1))
    targets = {"worker-0", "chief-0", "all", "launcher"}
    targets |= {"ps-0"} if topology.role_counts(job.cluster)[topology.PS] else set()
    kinds = {(fault["target"], fault.get("when"), bool(fault.get("again"))) for fault in faults}
    for target, moment in itertools.product(targets, moments.MOMENTS):
        assert (target, moment, False) in kinds
    for target in targets:
        assert (target, None, True) in kinds
    assert all(fault["at"] < steps for fault in faults)
    assert {fault["target"] for (fault,), _ in finals} == targets
    assert all(fault["at"] == steps for (fault,), steps in finals)


def test_every_soaked_mode_has_several_processes():
    several = {mode for mode, s in strategy_table.STRATEGIES.items() if s.own_evaluator}
    assert several == set(campaign.SIZES)


class _Run:
    def __init__(self):
        self.top_step, self.killed, self.pace = 0, [], None

    def kill(self, target):
        self.killed.append(target)
        return True

    def pause(self, target, seconds):
        assert target in ("chief-0", "worker-0", "ps-0", "evaluator-0")

    def set_pace(self, pace):
        self.pace = pace


def _killed(seed, kills=200, **options):
    run, counted = _Run(), collections.Counter()
    counts = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    killer = campaign.Killer(run, counts, random.Random(seed), kills, counted, delay=0.0, **options)
    for _ in range(40 * kills):
        run.top_step += 1
        killer.act()
    assert sum(counted.values()) == len(run.killed) == kills
    assert run.pace == 0.0
    return run.killed


def test_the_seed_decides_who_is_killed():
    assert _killed(1) == _killed(1) != _killed(2)
    tasks = {"chief-0", "worker-0", "ps-0", "evaluator-0"}
    assert set(_killed(1)) == {*tasks, "all", "fork-server", "launcher"}


@pytest.mark.parametrize("together", [False, True])
def test_runs_are_launched_again_before_restarts_become_slow(together):
    for before in ",".join(_killed(3, together=together)).split("launcher"):
        kills = collections.Counter(before.split(","))
        trained = [kills[name] for name in ("chief-0", "worker-0", "ps-0")]
        assert (sum(trained) if together else max(trained)) + kills["all"] + kills[
            "fork-server"
        ] <= 5


def test_the_table_says_what_was_wrong_and_how_to_repeat_it(tmp_path, capsys):
    exact = verdict.Applied(100, 0, 0, 0, 0, 0)
    good = campaign.Tally("multi_worker_mirrored", collections.Counter(chief=2))
    good.verdicts.append(verdict.Verdict(good.mode, 10, 1, 0, exact, 0, ()))
    bad = campaign.Tally("parameter_server", lost=1, wrong=["parameter_server-1: no progress"])
    soak_table.write(tmp_path / "soak.txt", [good, bad], "make soak SEED=3")
    text = capsys.readouterr().out
    assert text == (tmp_path / "soak.txt").read_text() + "\n"
    assert "kept" in text and "1 wrong" in text and "parameter_server-1: no progress" in text
    assert "again: make soak SEED=3" in text
    assert (tmp_path / "soak.json").exists()
