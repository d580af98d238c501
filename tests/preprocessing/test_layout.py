"""Folders of runs: what is removed, what is not, and who may work there."""

from __future__ import annotations

import os
import subprocess
import sys

from pipeline import manifest
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


def test_who_comes_second_waits_and_says_for_whom(tmp_path):
    script = (
        "import sys; from preprocessing import layout\n"
        "with layout.locked(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **piped) as first, subprocess.Popen(command, **piped) as second:
        said = {first.stdout.readline(): (first, second), second.stdout.readline(): (second, first)}
        holder, waiting = said["held\n"]
        assert f"{tmp_path}: waiting for process {holder.pid}, which makes it\n" in said
        holder.kill()
        assert waiting.stdout.readline() == "held\n"
        waiting.kill()
    with layout.locked(str(tmp_path)):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
