"""Killed at random moments and run again with other shards: published records stay as they were."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import random
import signal
import time

import tensorflow as tf

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from tests.faults import one_run
from tests.preprocessing import tables
from trainer.input import parsing

KILLS = 20
ROWS = 6000
SECONDS = 60


def _start(context, config: pathlib.Path, shards: int, root: pathlib.Path):
    process = context.Process(target=one_run.run, args=(str(config), shards, str(root)))
    process.start()
    return process


def _readable(folder: str, columns) -> tuple[int, list[int]]:
    """Returns the number of shards and all keys, as a reader finds them.

    Raises `DataError` if there are none, or the manifest does not fit the shards.
    """
    folder = builds.current(folder)
    contents = manifest.read(folder)
    manifest.verify(folder, contents, contents=True)
    paths = [f"{folder}/{s.path}" for split in contents.splits.values() for s in split.shards]
    keys: list[int] = []
    for batch in tf.data.TFRecordDataset(paths).batch(ROWS):
        keys += parsing.parse(batch, columns)["id"].numpy().tolist()
    return len(contents.splits["train"].shards), keys


def test_twenty_kills_at_random_moments(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(ROWS)))
    loaded = tables.make_config(tmp_path / "in.csv")
    config = tmp_path / "table.yaml"
    config.write_text(config_file.dump(loaded))
    folder = run_folder.records_folder(str(tmp_path), loaded.name)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["preprocessing.build.beam_pipeline", "tests.faults.one_run"])

    _start(context, config, 1, tmp_path).join(SECONDS)
    begin = time.monotonic()
    _start(context, config, 2, tmp_path).join(SECONDS)
    whole = time.monotonic() - begin
    newest = 2
    assert _readable(folder, loaded.data.columns)[0] == newest

    random_ = random.Random(0)
    for shards in range(3, 3 + KILLS):
        process = _start(context, config, shards, tmp_path)
        process.join(random_.uniform(0, whole))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # in case it had no group yet
        process.join(SECONDS)
        made, keys = _readable(folder, loaded.data.columns)
        # Of this run, published before it could be killed, or of the newest one that was finished.
        assert made in (newest, shards)
        assert process.exitcode or made == shards
        assert sorted(keys) == list(range(ROWS))
        newest = made
    assert len(builds.published(folder)) < 2 + KILLS, "no kill met a run at work"
    # A pointer that a killed run was writing is removed once it is too old to be another run's.
    for half_written in pathlib.Path(folder).glob("current.json.*.tmp"):
        os.utime(half_written, (0, 0))
    last = _start(context, config, 64, tmp_path)
    last.join(SECONDS)
    assert last.exitcode == 0
    shards, keys = _readable(folder, loaded.data.columns)
    assert shards == 64 and sorted(keys) == list(range(ROWS))
    left = {path.name for path in pathlib.Path(folder).glob("[!.]*")}
    assert left == {"current.json", *builds.published(folder)}
