"""Folders of runs: what is removed, what is not, and who may work there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline import errors, manifest
from preprocessing import layout

_BUILD = "0123456789ab"


def _shard(path, records=5):
    return manifest.Shard(path=path, records=records, bytes=9, crc32c="00000000", blocks=(0,))


def _publish(folder, build):
    shard = _shard(f"{build}/train-00000-of-00001.tfrecord")
    manifest.write(
        str(folder),
        manifest.Manifest(
            fingerprint="f",
            columns={},
            label="l",
            block_records=8,
            sources=(),
            splits={"train": manifest.Split(records=5, shards=(shard,))},
        ),
    )


def test_names(tmp_path):
    folders = layout.prepare(str(tmp_path), _BUILD)
    assert folders.build == str(tmp_path / "0123456789ab")
    assert os.path.isdir(folders.build) and os.path.isdir(folders.temporary)
    name = folders.shard_name("train", 3, 8)
    assert name == "0123456789ab/train-00003-of-00008.tfrecord"


def test_receipts_come_back(tmp_path):
    folders = layout.prepare(str(tmp_path), _BUILD)
    assert folders.receipts() == {} and folders.rows_finished() == 0
    made = {("train", 0): _shard("a", 5), ("eval", 12): _shard("b", 7)}
    for (split, index), shard in made.items():
        folders.write_receipt(split, index, shard)
    assert folders.receipts() == made
    assert folders.rows_finished() == 12


def test_clean_removes_what_no_manifest_names_and_nothing_else(tmp_path):
    _publish(tmp_path, "aaaaaaaaaaaa")
    for name in ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "_tmp-1", "mine", "aaaaaaaaaaaa-mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    (tmp_path / "manifest.json.77-00000000.tmp").touch()
    (tmp_path / ".lock").touch()
    assert layout.clean(str(tmp_path)) == 3
    left = ["mine", "aaaaaaaaaaaa", "aaaaaaaaaaaa-mine", ".lock", "manifest.json"]
    assert sorted(os.listdir(tmp_path)) == sorted(left)


def test_clean_without_a_usable_manifest(tmp_path):
    (tmp_path / "bbbbbbbbbbbb").mkdir()
    (tmp_path / "manifest.json").write_text("{")
    assert layout.clean(str(tmp_path)) == 1
    assert layout.clean(str(tmp_path / "absent")) == 0


def test_the_lock_names_the_other_process(tmp_path):
    script = (
        "import sys; from preprocessing import layout\n"
        "with layout.locked(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(errors.RetryableError, match=f"process {other.pid} is preprocessing"),
            layout.locked(str(tmp_path)),
        ):
            pass
        other.kill()
    with layout.locked(str(tmp_path)):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
