"""Every mode, in real processes, from one config: what it learns and what it leaves behind."""

from __future__ import annotations

import pytest

from pipeline import config_file, run_folder, topology
from tests.e2e.conftest import BATCH, MODES, SAVE_STEPS, STEPS

# Test accuracy of this network after as many updates: few, so that a mode that loses or doubles
# gradients falls out.
BAND = (0.83, 0.93)
COPIES = {"mirrored": 2, "central_storage": 2, "multi_worker_mirrored": 2}
COPIES["parameter_server_sync"] = 2


def test_every_mode_is_run():
    assert set(MODES) == set(topology.STRATEGIES)


@pytest.mark.parametrize("mode", MODES)
def test_it_learns_as_much_as_the_others(run_of, mode):
    record = run_of(mode).record
    assert record["status"] == "done"
    assert record["restarts"] == []
    assert BAND[0] < record["metrics"]["test"]["accuracy"] < BAND[1]


@pytest.mark.parametrize("mode", MODES)
def test_it_makes_the_steps_it_should(run_of, mode):
    """An asynchronous worker may make one more, begun before the last was counted (traps A26)."""
    record = run_of(mode).record
    assert 0 <= record["final_step"] - STEPS < 2
    assert topology.examples_per_step(run_of(mode).job) == BATCH * COPIES.get(mode, 1)


@pytest.mark.parametrize("mode", MODES)
def test_one_process_writes_train_events(run_of, mode):
    """All others' would be drawn over them (traps A32)."""
    path = run_of(mode).path
    names = [found.name for found in path.glob("**/events.out.*") if found.parent == path]
    assert len(names) == 1
    assert {p.parent.name for p in path.glob("*/events.out.*")} <= {"eval_eval", "eval_test"}


@pytest.mark.parametrize("mode", MODES)
def test_the_stored_config_is_the_one_that_was_trained(run_of, mode):
    run = run_of(mode)
    assert run_folder.RunFolder(str(run.path)).read_config() == run.job
    assert config_file.load(str(run.path / "config.yaml")).train.save_steps == SAVE_STEPS
