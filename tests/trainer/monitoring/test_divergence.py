"""What is kept of a run whose loss is no number any more."""

from __future__ import annotations

import pathlib
import tracemalloc
import types

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs.run_folder import RunFolder
from trainer.input.dataset import RecordDataset
from trainer.monitoring import divergence


@pytest.fixture(scope="module")
def blocks(small_records):
    return RecordDataset(
        small_records.job, small_records.folder, small_records.contents
    ).list_blocks("train")


@pytest.fixture
def make(small_records, blocks, tmp_path):
    def hook(save_steps, **options):
        job = small_records.config(f"train.save_steps={save_steps}")
        task = topology.Task(topology.CHIEF, 0)
        run = RunFolder(str(tmp_path))
        return divergence.DivergenceHook(job, run, task, blocks=blocks, **options)

    return hook


@pytest.fixture
def hook(make):
    return make(save_steps=4)


def _after(hook, loss, step, positions):
    results = (np.float32(loss), step, [np.array(positions)])
    hook.after_run(None, types.SimpleNamespace(results=results))


def _checkpoint(folder, step, value):
    """Saves a checkpoint of one variable, as a chief lists it."""
    path = f"{folder}/model.ckpt-{step}"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("global_step", initializer=tf.constant(step, tf.int64))
        tf.compat.v1.get_variable("w", initializer=tf.constant([1.0, value]))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, path, write_state=False)
    return path


def _listed(folder, *paths):
    tf.compat.v1.train.update_checkpoint_state(str(folder), paths[-1], list(paths))


def test_the_last_finite_checkpoint_and_the_batches_since_are_kept(hook, tmp_path, blocks):
    saved = [_checkpoint(tmp_path, 2, 0.5), _checkpoint(tmp_path, 4, np.inf)]
    _listed(tmp_path, *saved)
    for step in range(1, 5):
        _after(hook, 0.5, step, [[0, step]])
    with pytest.raises(
        errors.ModelError,
        match=r"^the loss is nan at step 5 \(chief-0\)\. "
        rf"Reproduce it with make replay RUN={tmp_path.name}$",
    ):
        _after(hook, np.nan, 5, [[1, 0], [0, 7]])
    (kept,) = divergence.read(RunFolder(str(tmp_path)))
    assert (kept.task, kept.from_step) == ("chief-0", 2)
    assert np.isnan(kept.loss)
    assert tf.train.load_variable(kept.checkpoint, "w").tolist() == [1.0, 0.5]
    assert [batch.step for batch in kept.batches] == [3, 4, 5]
    assert kept.batches[-1].positions.tolist() == [[1, 0], [0, 7]]


def test_memory_and_files_are_bounded_and_what_is_missing_is_reported(make, tmp_path):
    """At 4,096 records a batch, JSON of 10,000 steps took gigabytes."""
    hook = make(save_steps=500, most_bytes=1 << 20)
    _listed(tmp_path, _checkpoint(tmp_path, 2, 0.5))
    positions = np.random.default_rng(1).integers(0, [7, 32], [4096, 2])
    tracemalloc.start()
    try:
        for step in range(1, 200):
            _after(hook, 0.5, step, positions)
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(errors.ModelError):
        _after(hook, np.nan, 200, positions)
    (kept,) = divergence.read(RunFolder(str(tmp_path)))
    assert [batch.step for batch in kept.batches] == list(range(169, 201))
    assert kept.dropped == 168
    for batch in kept.batches:
        np.testing.assert_array_equal(batch.positions, positions)
    for path in (tmp_path / "divergence").iterdir():
        assert path.suffix == ".tfrecord" or path.stat().st_size < 1 << 20


def test_steps_before_the_checkpoint_are_not_missed(hook, tmp_path):
    """Of four a save, eight batches are kept."""
    _listed(tmp_path, _checkpoint(tmp_path, 16, 0.5))
    for step in range(1, 20):
        _after(hook, 0.5, step, [[0, step]])
    with pytest.raises(errors.ModelError):
        _after(hook, np.nan, 20, [[1, 0]])
    (kept,) = divergence.read(RunFolder(str(tmp_path)))
    assert ([batch.step for batch in kept.batches], kept.dropped) == ([17, 18, 19, 20], 0)


def test_the_batch_itself_is_kept_with_where_its_records_are(hook, tmp_path, blocks, small_records):
    _listed(tmp_path, _checkpoint(tmp_path, 0, 0.0))
    shard = 1
    block = int(np.flatnonzero(blocks.shard == shard)[2])
    with pytest.raises(errors.ModelError, match=r"^the loss is inf at step 1 \("):
        _after(hook, np.inf, 1, [[block, 5]])
    record = RunFolder(str(tmp_path)).read("divergence/chief-0.json")["records"][0]
    assert record["record_in_shard"] == 2 * 32 + 5
    # Read with TensorFlow's own reader, counted from the start of the shard.
    path = small_records.contents.splits["train"].shards[shard].path
    whole = list(tf.data.TFRecordDataset(str(pathlib.Path(small_records.folder) / path)))
    kept = list(tf.data.TFRecordDataset(str(tmp_path / "divergence" / "chief-0.tfrecord")))
    assert [k.numpy() for k in kept] == [whole[record["record_in_shard"]].numpy()]
    assert record["shard"].endswith(path)


def test_without_a_finite_checkpoint_there_is_nothing_to_repeat(hook, tmp_path):
    _listed(tmp_path, _checkpoint(tmp_path, 0, np.nan))
    with pytest.raises(errors.ModelError):
        _after(hook, np.nan, 1, [[0, 0]])
    assert divergence.read(RunFolder(str(tmp_path))) == []
    assert (tmp_path / "divergence" / "chief-0.tfrecord").exists()


def test_asynchronous_processes_tell_the_step_that_all_count(small_records, blocks, tmp_path):
    job = small_records.config("cluster.strategy=parameter_server")
    cluster = {role: (f"localhost:{n}",) for n, role in enumerate(("chief", "worker", "ps"), 1)}
    task = topology.Task(topology.WORKER, 0, cluster)
    hook = divergence.DivergenceHook(job, RunFolder(str(tmp_path)), task, blocks=blocks)
    _listed(tmp_path, _checkpoint(tmp_path, 0, 0.0))
    with pytest.raises(errors.ModelError, match=r"^the loss is nan at step 41 \(worker-0\)\."):
        _after(hook, np.nan, 41, [[0, 0]])


def test_a_step_that_was_counted_before_it_was_made_is_kept_too(hook, tmp_path):
    """An asynchronous process may fetch the step that the checkpoint is of."""
    _listed(tmp_path, _checkpoint(tmp_path, 0, 0.0))
    hook._counts_alone = False
    with pytest.raises(errors.ModelError, match=r"^the loss is nan at step 0 \("):
        _after(hook, np.nan, 0, [[0, 7]])
    (kept,) = divergence.read(RunFolder(str(tmp_path)))
    assert [batch.positions.tolist() for batch in kept.batches] == [[[0, 7]]]
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "divergence/chief-0.tfrecord")))) == 1


def test_payloads_come_in_the_order_asked_for(blocks, small_records):
    order = np.array([[3, 1], [0, 0], [3, 0], [0, 0]])
    got = divergence.read_payloads(blocks, order)
    assert got[1] == got[3] != got[0]
    first = next(iter(tf.data.TFRecordDataset(blocks.paths[0]))).numpy()
    assert got[1] == first
