"""Killed at random moments and run again: with other shards, published records stay as they were;
with the same, what was finished is used, and the records are those of a run that was not killed."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import random
import re
import signal
import time

import pytest
import tensorflow as tf

from pipeline.config import config_file
from pipeline.records import builds, manifest, shard_check
from pipeline.runs import run_folder
from tests.faults import one_run
from tests.pipeline.process_help import wait_until
from tests.preprocessing import tables
from tests.support import commands
from tests.support.sets import slow_unless
from trainer.input import parsing

KILLS = 20
ROWS = 6000
SECONDS = 60


def _start(config: pathlib.Path, shards: int, root: pathlib.Path, **options):
    arguments = (str(config), shards, str(root))
    process = commands.SERVER.Process(target=one_run.run, args=arguments, kwargs=options)
    process.start()
    return process


def _kill(process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # in case it had no group yet
    process.join(SECONDS)


def _readable(folder: str, columns) -> tuple[int, list[int]]:
    """Returns the number of shards and all keys, as a reader finds them.

    Raises `DataError` if there are none, or the manifest does not fit the shards.
    """
    folder = builds.find_current(folder)
    contents = manifest.read(folder)
    shard_check.verify(folder, contents, contents=True)
    paths = [f"{folder}/{s.path}" for split in contents.splits.values() for s in split.shards]
    keys: list[int] = []
    for batch in tf.data.TFRecordDataset(paths).batch(ROWS):
        keys += parsing.parse(batch, columns)["id"].numpy().tolist()
    return len(contents.splits["train"].shards), keys


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(ROWS)))
    loaded = tables.make_config(tmp_path / "in.csv")
    config = tmp_path / "table.yaml"
    config.write_text(config_file.dump(loaded))
    folder = run_folder.records_folder(str(tmp_path), loaded.name)

    _start(config, 1, tmp_path).join(SECONDS)
    begin = time.monotonic()
    _start(config, 2, tmp_path).join(SECONDS)
    whole = time.monotonic() - begin
    newest = 2
    assert _readable(folder, loaded.data.columns)[0] == newest

    random_ = random.Random(0)
    for shards in range(3, 3 + KILLS):
        process = _start(config, shards, tmp_path)
        process.join(random_.uniform(0, whole))
        _kill(process)
        made, keys = _readable(folder, loaded.data.columns)
        # Of this run, published before it could be killed, or of the newest one that was finished.
        assert made in (newest, shards)
        assert process.exitcode or made == shards
        assert sorted(keys) == list(range(ROWS))
        newest = made
    assert len(builds.list_published(folder)) < 2 + KILLS, "no kill met a running process"
    # A pointer that a killed run was writing is removed once it is too old to be another run's.
    for half_written in pathlib.Path(folder).glob("current.json.*.tmp"):
        os.utime(half_written, (0, 0))
    last = _start(config, 64, tmp_path)
    last.join(SECONDS)
    assert last.exitcode == 0
    shards, keys = _readable(folder, loaded.data.columns)
    assert shards == 64 and sorted(keys) == list(range(ROWS))
    left = {path.name for path in pathlib.Path(folder).glob("[!.]*")}
    assert left == {"current.json", *builds.list_published(folder)}


CHUNK_BYTES = 8_000


def _finished(folder: pathlib.Path) -> int:
    """Returns how many pieces the runs have finished that were killed."""
    # Unlike that of `pathlib`, this `glob` lets the runs remove folders meanwhile.
    return len({pathlib.Path(p).name for p in glob.glob(f"{folder}/_tmp-*/*.piece.json")})


def _is_writing(folder: pathlib.Path) -> bool:
    return bool(glob.glob(f"{folder}/*/*.tfrecord"))


def _await(condition, process) -> None:
    wait_until(lambda: condition() or not process.is_alive(), SECONDS, poll=0.001)


def _files(folder: str) -> dict[str, bytes]:
    build = pathlib.Path(builds.find_current(folder))
    found = (path for path in build.rglob("*") if path.is_file())
    return {str(path.relative_to(build)): path.read_bytes() for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [slow_unless(workers == 2, workers) for workers in (1, 2)])
def test_killed_again_and_again_it_ends_with_the_same_records(tmp_path, workers):
    rows = tables.rows(ROWS)
    rows[70] = rows[3000] = "x,n,1,1"
    rows[4000] = rows[100]
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    loaded = tables.make_config(tmp_path / "in.csv", error_budget=5)
    config = tmp_path / "table.yaml"
    config.write_text(config_file.dump(loaded))
    undisturbed = _start(config, 3, tmp_path / "undisturbed")
    undisturbed.join(SECONDS)
    assert undisturbed.exitcode == 0

    folder = pathlib.Path(run_folder.records_folder(str(tmp_path), loaded.name))
    output = tmp_path / "output.txt"
    options = {"num_workers": workers, "chunk_bytes": CHUNK_BYTES, "output": str(output)}
    random_ = random.Random(workers)
    before = [0]
    while not any(folder.glob("*/manifest.json")):
        process = _start(config, 3, tmp_path, **options)
        wanted = before[-1] + random_.randint(4, 12)
        _await(lambda: _finished(folder) >= wanted or _is_writing(folder), process)  # noqa: B023
        process.join(random_.uniform(0, 0.02))
        _kill(process)
        if _finished(folder) == before[-1]:
            break  # it was writing shards; another run would be killed at that again
        before.append(_finished(folder))
        assert sum(1 for _ in folder.glob("_tmp-*")) <= 2, "nothing is left for ever"
    last = _start(config, 3, tmp_path, **options)
    last.join(SECONDS)
    assert last.exitcode == 0
    said = output.read_text()
    used = re.findall(r"had finished (\d+) of (\d+) pieces", said)
    assert len(used) >= 2 and "starting over" not in said
    # A piece that was being moved when the run was killed is lost, one of each thread at most.
    assert [int(n) for n, _ in used] == sorted(int(n) for n, _ in used)
    assert _files(str(folder)) == _files(
        run_folder.records_folder(str(tmp_path / "undisturbed"), loaded.name)
    )
    assert not any(folder.glob("_tmp-*"))
