"""Every mode, in real processes, from one config: what it learns and what it leaves behind."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.config.strategy_table import STRATEGIES
from pipeline.records import epochs
from pipeline.runs import run_folder
from tests.e2e.conftest import BATCH, MODES, SAVE_STEPS, STEPS, modes

# Test accuracy of this network after as many updates: few, so that a mode that loses or doubles
# gradients falls out.
BAND = (0.83, 0.93)
ASYNCHRONOUS = [name for name, row in STRATEGIES.items() if row.asynchronous]


def test_every_mode_is_run():
    assert set(MODES) == set(STRATEGIES), "add its settings to MODES in tests/e2e/conftest.py"


@pytest.mark.parametrize("mode", modes(*MODES))
def test_it_learns_as_much_as_the_others(run_of, mode):
    record = run_of(mode).record
    assert record["status"] == "done"
    assert record["restarts"] == []
    assert BAND[0] < record["metrics"]["test"]["accuracy"] < BAND[1]


@pytest.mark.parametrize("mode", modes(*MODES))
def test_it_makes_the_steps_it_should(run_of, mode):
    """Asynchronous processes read the step before they count theirs
    (docs/tensorflow-pitfalls.md#steps-beyond-the-limit): each may begin another two meanwhile."""
    beyond = run_of(mode).record["final_step"] - STEPS
    assert 0 <= beyond < (4 if mode in ASYNCHRONOUS else 1)
    copies = 2 if STRATEGIES[mode].synchronous else 1
    assert topology.examples_per_step(run_of(mode).job) == BATCH * copies


@pytest.mark.parametrize("mode", modes(*MODES))
def test_each_record_of_an_epoch_is_applied_once(run_of, small_records, mode):
    run = run_of(mode)
    ended = [row for row in run.record["input"] if not row["left"]]
    # Asynchronous processes may have begun an epoch before the last one has ended.
    due = small_records.contents.split("train").records
    whole = STEPS * topology.examples_per_step(run.job) // due
    assert whole - (mode in ASYNCHRONOUS) <= len(ended) <= whole
    for row in ended:
        assert (row["once"], row["more"], row["never"], row["skipped"]) == (due, 0, 0, 0)


@pytest.mark.parametrize("mode", modes("mirrored", "parameter_server"))
def test_logs_say_where_operations_are_placed(run_of, mode):
    text = (run_of(mode).path / "logs" / "chief-0.log").read_text()
    placed = set(re.findall(r"^\S+: \(MatMul\): (\S+)$", text, re.MULTILINE))
    variables = set(re.findall(r"^global_step/Assign: \(\w+\): (\S+)$", text, re.MULTILINE))
    if mode == "mirrored":
        assert {device[-5:] for device in placed} == {"CPU:0", "CPU:1"}
    else:
        assert placed == {"/job:chief/replica:0/task:0/device:CPU:0"}
        assert all(device.startswith("/job:ps/") for device in variables)
    assert variables


@pytest.mark.parametrize("mode", modes(*MODES))
def test_one_process_writes_train_events(run_of, mode):
    """All others' would be drawn over them (docs/tensorflow-pitfalls.md#summaries). Those of an
    evaluation that is made again are beside those of the run."""
    path = run_of(mode).path
    names = [found.name for found in path.glob("**/events.out.*") if found.parent == path]
    assert len(names) == 1
    evaluated = {p.parent.name.removesuffix("_again") for p in path.glob("*/events.out.*")}
    assert evaluated <= {"eval_eval", "eval_test"}


@pytest.mark.parametrize("mode", modes(*MODES))
def test_the_stored_config_is_the_one_that_was_trained(run_of, small_records, mode):
    run = run_of(mode)
    folder = run_folder.RunFolder(str(run.path))
    assert folder.read_config() == run.job
    assert epochs.set_run_length(run.job, folder).train.max_steps == STEPS
    assert config_file.load(str(run.path / "config.yaml")).train.save_steps == SAVE_STEPS


@pytest.mark.parametrize("mode", modes(*MODES))
def test_nothing_is_left_beside_the_checkpoints(run_of, mode):
    """Workers of an all-reduce have to write some of their own
    (docs/tensorflow-pitfalls.md#checkpoints-of-workers)."""
    names = {path.name for path in run_of(mode).path.iterdir()}
    assert not {name for name in names if name.startswith("tmp") or "_temp" in name}


@pytest.mark.slow
def test_what_epochs_come_to_is_printed_at_the_start(run_of):
    lines = run_of("one_device").output.splitlines()
    assert re.search(
        r"^3\.\d+ epochs of 2,8\d\d examples are 300 steps$", run_of("one_device").output, re.M
    )
    assert lines.index("each step: 32 examples, learning rate 0.5") == 1


def test_what_batches_come_to_is_printed_at_the_start(run_of):
    lines = run_of("mirrored").output.splitlines()
    assert lines[1] == "each step: 2 replicas of 32: 64 examples, learning rate 0.5"


def _events(run):
    """Returns (tag, step) of all train summaries of a run."""
    return [
        (value.tag, event.step)
        for path in run.path.glob("events.out.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]


@pytest.mark.parametrize("mode", modes(*MODES))
def test_what_follows_a_save_happens_once_at_the_chief(run_of, mode):
    """Listeners are dropped under some strategies, and called by every worker
    (docs/tensorflow-pitfalls.md#saving-listeners)."""
    run = run_of(mode)
    saved = [step for tag, step in _events(run) if tag == "seconds/checkpoint"]
    kept = {int(path.stem.rpartition("-")[2]) for path in run.path.glob("model.ckpt-*.index")}
    assert len(saved) == len(set(saved))
    assert set(saved) == kept
    # Steps beyond the last one are saved once more.
    assert len(kept) - STEPS // SAVE_STEPS in ((1, 2) if mode in ASYNCHRONOUS else (1,))
    assert run.record["seconds"]["checkpoints"] > 0


@pytest.mark.parametrize("mode", modes(*MODES))
def test_every_training_process_says_where_its_time_goes(run_of, mode):
    run = run_of(mode)
    several = run.record["topology"]["worker"]
    tasks = ["chief-0", "worker-0"] if several else ["chief-0"]
    found = run.record["step_seconds"]
    if mode in ASYNCHRONOUS:  # a worker may come too late to make enough steps
        tasks = [task for task in tasks if task in found]
    assert sorted(found) == tasks != []
    for task in tasks:
        assert found[task]["compute"] > 0
        # Only between processes is anything exchanged.
        assert (found[task]["exchange"] > 0) == bool(several)
    tags = {tag for tag, _ in _events(run)}
    assert {"seconds/compute", "seconds/exchange", "seconds/input"} <= tags
    assert ("staleness/chief-0" in tags) == (mode in ASYNCHRONOUS)
    if mode in ASYNCHRONOUS:
        assert "chief-0" in run.record["staleness"]
    profiled = run.path / "plugins" / "profile" / "step-20" / "chief-0.trace.json.gz"
    assert profiled.exists() or mode in ASYNCHRONOUS
