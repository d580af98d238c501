"""Faults one after the other, and what is measured of each, without a run."""

from __future__ import annotations

import random
import time
import types

import pytest

from pipeline.config import config_file
from pipeline.faults import actions
from pipeline.faults.clock import MovedClock
from pipeline.faults.disturber import Disturber
from pipeline.faults.draw import Fault
from pipeline.runs.run_folder import Status


def status(task, step, pid=1, **more):
    given = {"state": "training", "time": time.time(), "loss": 0.1, "step": step, **more}
    return Status(task=task, pid=pid, host="here", **given)


class Run:
    """Stands for a launched run: a chief and a worker at the same step."""

    def __init__(self):
        self.top_step, self.launches, self.killed = 0, 1, []
        self.codes, self.statuses = [], {}

    def kill(self, target):
        self.killed.append(target)
        return True

    def report(self, step, rows=None, pid=1, continued=0):
        self.top_step = max(self.top_step, step)
        more = {"pid": pid, "continued": {"step": continued, "time": float(pid)}, "input": rows}
        self.statuses = {
            "chief-0": status("chief-0", step, **more),
            "worker-0": status("worker-0", step),
        }


@pytest.fixture
def disturb():
    def make(*faults):
        disturber = Disturber(faults)
        disturber.scene = types.SimpleNamespace(
            run=Run(), job=config_file.load("mnist"), strike=disturber.strike, clock=None
        )
        return disturber, disturber.scene.run

    return make


def test_a_fault_strikes_at_its_step_and_the_next_waits_for_the_steps_after_it(disturb):
    disturber, run = disturb(Fault("kill", "chief-0", 10), Fault("kill", "ps-0", 11))
    run.report(9)
    disturber.act()
    assert run.killed == []
    run.report(20)
    disturber.act()
    assert run.killed == ["chief-0"]
    disturber.act()
    assert run.killed == ["chief-0"], "it has not made a step again"
    time.sleep(0.01)
    run.report(15, pid=2, continued=14)
    disturber.act()
    disturber.act()
    assert run.killed == ["chief-0", "ps-0"]
    first, _ = disturber.faults
    assert (first.at, first.steps_lost) == (20, 6)
    assert 0 < first.seconds_to_next_step < 5
    assert disturber.done == 2


def test_a_fault_has_struck_by_the_real_clock(disturb, tmp_path):
    """Processes, and what they report, have the one that jumped."""
    disturber, run = disturb(Fault("kill", "chief-0", 10))
    disturber.scene.clock = clock = MovedClock(tmp_path / "clock")
    began = time.time()
    clock.jump(5000)
    run.report(20)
    disturber.act()
    clock.close()
    assert began <= disturber.faults[0].struck <= time.time()


def test_the_step_of_a_fault_is_where_training_was_after_lost_work(disturb):
    disturber, run = disturb(Fault("kill", "chief-0", 10), Fault("kill", "chief-0", 15))
    run.report(20)
    disturber.act()
    time.sleep(0.01)
    run.report(15, pid=2, continued=14)
    disturber.act()
    disturber.act()
    first, second = disturber.faults
    assert (first.at, second.at) == (20, 15)


def test_steps_that_are_made_while_a_fault_lasts_are_lost_too(disturb, monkeypatch):
    def lasts(scene, fault):
        scene.strike(fault)
        while scene.run.launches == 1:
            yield

    monkeypatch.setattr(actions, "ACTIONS", {"disk": lasts})
    disturber, run = disturb(Fault("disk", "all", 10, 5.0))
    for step in (10, 30):
        run.report(step)
        disturber.act()
    run.launches = 2
    disturber.act()
    for step in (21, 22):
        time.sleep(0.01)
        run.report(step, pid=2, continued=20)
        disturber.act()
    assert disturber.faults[0].steps_lost == 10


def test_the_ledger_is_that_of_the_newest_fault(disturb):
    disturber, run = disturb(Fault("kill", "worker-0", 10), Fault("kill", "worker-0", 20))
    run.report(10, [{"more": 2, "never": 0}])
    disturber.act()
    time.sleep(0.01)
    run.report(20, [{"more": 5, "never": 0}, {"more": 1, "never": 0}])
    disturber.act()
    disturber.act()
    disturber.account([{"more": 6, "never": 3}])
    assert [(fault.doubled, fault.missed) for fault in disturber.faults] == [(4, 0), (0, 3)]


def test_a_fault_that_cannot_strike_yet_lets_the_next_go_first(disturb, monkeypatch):
    def waits(scene, fault):
        while scene.run.top_step < 50:
            yield
        scene.strike(fault)

    monkeypatch.setattr(actions, "ACTIONS", {**actions.ACTIONS, "checkpoint": waits})
    disturber, run = disturb(Fault("checkpoint", "chief-0", 10), Fault("kill", "worker-0", 20))
    for step in (10, 20, 30, 40, 50, 60):
        time.sleep(0.01)
        run.report(step)
        disturber.act()
        disturber.act()
    assert run.killed == ["worker-0"]
    assert [fault.kind for fault in disturber.faults] == ["kill", "checkpoint"]
    assert disturber.done == 2


def test_only_the_fault_under_way_explains_an_exit_code(disturb, monkeypatch):
    freed = []

    def fills(scene, fault):
        scene.strike(fault)
        while not scene.run.codes:
            yield
        freed.append(fault)

    monkeypatch.setattr(actions, "ACTIONS", {"disk": fills})
    disturber, run = disturb(Fault("disk", "all", 10, 5.0))
    assert not disturber.expect_exit(75)
    run.report(10)
    disturber.act()
    assert not disturber.expect_exit(70)
    run.codes.append(75)
    assert disturber.expect_exit(75)
    assert freed == disturber.faults, "before the launcher is started again"
    assert freed[0].note == "exit code 75, and the same command again"


def test_an_altered_shard_is_looked_for_by_the_next_chief_alone(disturb, tmp_path, monkeypatch):
    """The chief makes a step after its launcher was killed, and before it ends with it."""
    shard = tmp_path / "train-0"
    shard.write_bytes(b"records")
    split = types.SimpleNamespace(shards=[types.SimpleNamespace(path=shard.name)])
    contents = types.SimpleNamespace(split=lambda name: split)
    monkeypatch.setattr(actions.manifest, "read", lambda folder: contents)
    monkeypatch.setattr(actions, "restore", lambda scene, path: None)
    monkeypatch.setattr(actions.processes, "pids_of", lambda task, run: [1])
    disturber, run = disturb(Fault("shard", "launcher", 10))
    run.run, wrong = None, []
    vars(disturber.scene).update(records=tmp_path, rng=random.Random(1), wrong=wrong.append)
    run.report(10)
    disturber.act()
    assert run.killed == ["launcher"] and shard.read_bytes() != b"records"
    run.report(11)
    run.launches = 2
    disturber.act()
    assert wrong == []
    run.report(12, pid=2)
    disturber.act()
    assert wrong == ["the altered shard train-0 was not found"]
