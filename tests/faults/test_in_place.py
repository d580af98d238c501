"""Whole jobs on TFRecords of another user, used where they lie: processes and launchers are
killed, and what has trained the model is what the ledger says."""

from __future__ import annotations

import hashlib
import json
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds, manifest
from tests.faults import injected, verdict, witness
from tests.faults.launched import LaunchedRun
from trainer.checkpoints import checkpoint_files

# Of each file of train; blocks of 64 are uneven, and one file has none.
ROWS = (1000, 333, 0, 7, 64)
EPOCHS, BATCH = 2, 16
_MAY_TAKE = 300.0  # seconds


def _write(path: pathlib.Path, rows: int, seed: int) -> None:
    """Writes a file as users of TensorFlow do."""
    draw = np.random.default_rng(seed)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(rows):
            image = draw.integers(0, 256, (28, 28, 1), np.uint8)
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "label": tf.train.Feature(
                    int64_list=tf.train.Int64List(value=[int(image.sum()) % 10])
                ),
                "unread": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0] * (seed % 5))),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


@pytest.fixture
def foreign(tmp_path) -> pathlib.Path:
    """A config of files in a folder that another program made."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for index, rows in enumerate(ROWS):
        _write(folder / f"train-{index}.tfrecord", rows, index)
    _write(folder / "eval.tfrecord", 100, 100)
    _write(folder / "test.tfrecord", 50, 101)
    inputs = {split: {"files": f"theirs/{split}*.tfrecord"} for split in ("train", "eval", "test")}
    job = {
        "name": "theirs",
        "data": {
            **{"source": "tfrecord", "in_place": True, "inputs": inputs, "block_records": 64},
            "columns": {
                "image": {"type": "uint8", "shape": [28, 28, 1]},
                "label": {"type": "int64"},
            },
            "label": "label",
        },
        "model": {"name": witness.MODEL, "params": {"classes": 10}},
        "train": {
            **{"epochs": EPOCHS, "steps": None, "batch_size": BATCH, "save_steps": 20},
            "optimizer": {"name": "sgd", "learning_rate": 1},
            "hooks": [injected.HOOK],
        },
    }
    path = tmp_path / "theirs.yaml"
    path.write_text(json.dumps(job))
    return path


def _hashes(folder: pathlib.Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def _follow(run: LaunchedRun) -> list[int]:
    """Starts the run again as often as its launcher was killed; returns how often."""
    until = time.monotonic() + _MAY_TAKE
    while True:
        while run.look():
            assert time.monotonic() < until
            time.sleep(0.05)
        if run.wait() >= 0:
            return run.codes
        run.start()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("settings", "target", "exact"),
    [
        (("cluster.strategy=none",), "launcher", True),
        (
            ("cluster.strategy=parameter_server", "cluster.workers=2", "cluster.ps=1"),
            "worker-1",
            False,
        ),
        (("cluster.strategy=multi_worker_mirrored", "cluster.workers=1"), "worker-0", True),
    ],
)
def test_each_record_of_their_files_trains_exactly_once(foreign, tmp_path, settings, target, exact):
    before = _hashes(tmp_path / "theirs")
    output = tmp_path / "output"
    output.mkdir()
    run = LaunchedRun(output, "r", str(foreign), list(settings))
    # In the middle of an epoch, and not at a checkpoint.
    run.set_faults([{"by": "chief-0", "at": 33, "do": "kill", "target": target}], 0.01)
    try:
        run.start()
        codes = _follow(run)
    finally:
        run.close()
    assert codes == [0], (output / "r.log").read_text()
    assert run.run.read("fired-0.json") is not None
    assert run.launches == (2 if target == "launcher" else 1)
    folder = builds.find_run_build(str(output), run.run, "theirs")
    job: config.Config = config_file.load(str(foreign), list(settings))
    found = verdict.compare_applied(checkpoint_files.find_newest(run.run.path), folder, job)
    if exact:
        assert found.exact
    else:
        assert not (found.never or found.ledger_never or found.ledger_more or found.left)
        assert found.more <= verdict.bound(job, run.run.path, run.workers_lost)
    # The records of each epoch, and a batch that is filled up.
    assert EPOCHS * sum(ROWS) <= found.total
    record = json.loads(pathlib.Path(run.run.record_path).read_text())
    assert [row["due"] for row in record["input"][:EPOCHS]] == [sum(ROWS)] * EPOCHS
    assert record["metrics"]["test"]["accuracy"] >= 0
    contents = manifest.read(folder)
    theirs = str(tmp_path / "theirs")
    assert all(
        shard.path.startswith(theirs)
        for split in contents.splits.values()
        for shard in split.shards
    )
    assert not list(pathlib.Path(folder).glob("*.tfrecord"))
    assert _hashes(tmp_path / "theirs") == before
