"""Checkpoints and what is done after each, in real sessions that save."""

from __future__ import annotations

import tempfile

import pytest
import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint_management

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs.run_folder import RunFolder
from tests.trainer.small_checkpoints import list_known_steps, steps
from trainer.checkpoints import saving

_train = tf.compat.v1.train
GANG = {"chief": ("h:1",), "worker": ("h:2", "h:3")}
CHIEF, WORKER = topology.Task("chief", 0, GANG), topology.Task("worker", 1, GANG)
GRAPH = tf.compat.v1.GraphKeys


@pytest.fixture
def hooks_of(small_records, tmp_path):
    """Returns a function from a task to its hooks, and the saves of which they tell."""
    seen = []

    def build(task, strategy="multi_worker_mirrored", folder=tmp_path):
        job = small_records.config(f"cluster.strategy={strategy}", "train.save_steps=3")
        actions = [lambda step, seconds: seen.append((step, seconds))]
        return saving.build_hooks(job, RunFolder(str(folder)), task, actions=actions)

    return build, seen


def train(folder, last_step, hooks, listener=None):
    """Trains as an Estimator does, with an empty train op that counts."""
    with tf.Graph().as_default():
        op = _train.get_or_create_global_step().assign_add(1, name="step")
        saver = _train.Saver(max_to_keep=2, defer_build=True, save_relative_paths=True)
        tf.compat.v1.add_to_collection(GRAPH.SAVERS, saver)
        for hook in hooks:
            if listener is not None and isinstance(hook, _train.CheckpointSaverHook):
                hook._listeners.append(listener)  # as Estimator adds the one that evaluates
        with _train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            hooks=[*hooks, _train.StopAtStepHook(last_step=last_step)],
            save_checkpoint_steps=None,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
        ) as session:
            while not session.should_stop():
                session.run(op)


def test_the_chief_saves_every_few_steps_and_at_the_end_and_acts_once_after_each(
    hooks_of, tmp_path
):
    build, seen = hooks_of
    train(tmp_path, 8, build(CHIEF))
    assert [step for step, _ in seen] == [0, 3, 6, 8]
    assert all(0 < seconds < 10 for _, seconds in seen)
    assert steps(tmp_path) == list_known_steps(tmp_path) == [6, 8]


def test_the_graph_is_described_beside_each_checkpoint_but_only_once_made(
    hooks_of, tmp_path, monkeypatch
):
    made, real = [], tf.Graph.as_graph_def
    monkeypatch.setattr(
        tf.Graph, "as_graph_def", lambda *args, **kw: made.append(1) or real(*args, **kw)
    )
    counts = []

    class Count(_train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            counts.append(len(made))

    build, _ = hooks_of
    train(tmp_path, 8, build(CHIEF), listener=Count())
    assert len(counts) == 4 and len(set(counts)) == 1
    first, last = ((tmp_path / f"model.ckpt-{step}.meta").read_bytes() for step in (6, 8))
    assert first == last
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = _train.import_meta_graph(str(tmp_path / "model.ckpt-8.meta"))
        saver.restore(session, str(tmp_path / "model.ckpt-8"))
        [step] = tf.compat.v1.global_variables()
        assert session.run(step) == 8


def test_a_chief_of_parameter_servers_does_not_save_again_what_it_restored(hooks_of, tmp_path):
    build, seen = hooks_of
    chief = topology.Task("chief", 0, {**GANG, "ps": ("h:4",)})
    for last in (4, 8):
        train(tmp_path, last, build(chief, "parameter_server"))
    assert [step for step, _ in seen] == [0, 3, 4, 7, 8]


def test_a_process_that_ends_a_step_during_the_last_save_is_saved_too(hooks_of, tmp_path):
    """What it did may be in a part of what was saved, and there is no save after the last."""

    class Meanwhile(_train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            if global_step_value == 8:
                session.run(session.graph.get_operation_by_name("step"))

    build, seen = hooks_of
    train(tmp_path, 8, build(CHIEF, "parameter_server"), Meanwhile())
    assert [step for step, _ in seen] == [0, 3, 6, 8, 9]
    assert steps(tmp_path) == list_known_steps(tmp_path) == [8, 9]


def test_the_last_save_comes_after_what_others_were_still_doing(small_records, tmp_path):
    """And what is only for saves that others follow is not done after it."""
    told = []

    def others_end(session):
        told.append("end")
        session.run(session.graph.get_operation_by_name("step"))

    made = saving.build_hooks(
        small_records.config("train.save_steps=3"),
        RunFolder(str(tmp_path)),
        CHIEF,
        actions=[lambda step, seconds: told.append(step)],
        before_last=others_end,
        between=[lambda step, seconds: told.append(-step)],
    )
    train(tmp_path, 4, made)
    assert told == [0, 0, 3, -3, "end", 5]


def test_evaluating_in_turn_is_no_part_of_the_time_of_a_save(hooks_of, tmp_path):
    class Slow(_train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            order.append((global_step_value, len(seen)))

    build, seen = hooks_of
    order = []
    train(tmp_path, 1, build(CHIEF), Slow())
    # The time had been taken when the listener was called.
    assert order == [(0, 1), (1, 2)]


def test_a_worker_of_an_all_reduce_saves_to_its_own_disk_and_deletes_nothing_of_the_chiefs(
    hooks_of, tmp_path, monkeypatch
):
    """It has been restored from the chief's, so its Saver would take them for its own. At most one
    checkpoint takes up space there, and none afterwards."""
    run, local = tmp_path / "run", tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(local))

    class Look(_train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            [folder] = local.iterdir()
            there.append(steps(folder))

    build, seen = hooks_of
    train(run, 6, build(CHIEF, folder=run))
    before = {path.name: path.stat().st_ino for path in run.glob("model.ckpt-*")}
    told, there = len(seen), []
    hooks = build(WORKER, folder=run)
    hooks[-1]._listeners.insert(0, Look())
    train(run, 15, hooks)
    assert there == [[6], [9], [12], [15]]
    assert {path.name: path.stat().st_ino for path in run.glob("model.ckpt-*")} == before
    assert not list(run.glob("tmp_*")) and not list(local.iterdir())
    assert len(seen) == told


def test_training_does_not_begin_again_because_a_list_could_not_be_read(
    hooks_of, tmp_path, monkeypatch
):
    """TensorFlow then takes a run for a new one, whatever has been saved."""
    build, seen = hooks_of
    train(tmp_path, 6, build(CHIEF))
    before, told = (tmp_path / "checkpoint").read_text(), len(seen)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_management, "get_checkpoint_state", lambda *_: None)
        with pytest.raises(
            errors.RetryableError, match=r"restored step 0, because the newest .* of step 6"
        ):
            train(tmp_path, 8, build(CHIEF))
    assert ((tmp_path / "checkpoint").read_text(), len(seen)) == (before, told)
    train(tmp_path, 8, build(CHIEF))
    assert [step for step, _ in seen[told:]] == [6, 8]


@pytest.mark.parametrize("strategy", ["parameter_server", "parameter_server_strategy"])
def test_other_workers_do_not_save(hooks_of, strategy):
    build, _ = hooks_of
    assert build(WORKER, strategy) == []


def test_a_saver_of_the_models_own_is_the_one_that_is_used():
    with tf.Graph().as_default():
        _train.get_or_create_global_step()
        own, other = (_train.Saver(defer_build=True) for _ in range(2))
        saving.keep_known(_train.Scaffold())
        assert tf.compat.v1.get_collection(GRAPH.SAVERS) == []
        tf.compat.v1.add_to_collection(GRAPH.SAVERS, other)
        for _ in range(2):
            saving.keep_known(_train.Scaffold(saver=own))
            assert tf.compat.v1.get_collection(GRAPH.SAVERS) == [own]


def test_what_has_to_come_before_a_save_does(small_records, tmp_path):
    seen = []
    job = small_records.config("train.save_steps=3")
    made = saving.build_hooks(
        job,
        RunFolder(str(tmp_path)),
        CHIEF,
        actions=[lambda step, seconds: seen.append("after")],
        before_save=lambda session: seen.append("before"),
    )
    train(tmp_path, 4, made)
    assert seen == ["before", "after"] * (len(seen) // 2) != []
