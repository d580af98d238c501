"""Folders of runs: what is removed, what is not, and who may work there."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import subprocess
import sys

from pipeline.records import manifest
from preprocessing.shards import record_folders

_BUILD = "0123456789ab"


def _shard(path, records=5):
    return manifest.Shard(path=path, records=records, bytes=9, crc32c="00000000", blocks=(0,))


def _publish(folder):
    shard = _shard("train-00000-of-00001.tfrecord")
    folder.mkdir()
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
    folders = record_folders.prepare(str(tmp_path), _BUILD)
    assert folders.build == str(tmp_path / "0123456789ab")
    assert os.path.isdir(folders.build) and os.path.isdir(folders.temporary)
    assert folders.name_shard("train", 3, 8) == "train-00003-of-00008.tfrecord"
    assert record_folders.prepare(str(tmp_path), _BUILD).build_name == "0123456789ab-2"
    assert (
        record_folders.prepare(str(tmp_path), _BUILD, ["0123456789ab-9"]).build_name
        == "0123456789ab-10"
    )
    assert record_folders.list_builds(str(tmp_path), _BUILD) == [
        f"{_BUILD}-10",
        f"{_BUILD}-2",
        _BUILD,
    ]
    assert record_folders.list_builds(str(tmp_path), "b" * 12) == []


def test_receipts_come_back(tmp_path):
    folders = record_folders.prepare(str(tmp_path), _BUILD)
    assert folders.read_receipts() == {} and folders.count_finished_rows() == 0
    made = {("train", 0): _shard("a", 5), ("eval", 12): _shard("b", 7)}
    for (split, index), shard in made.items():
        folders.write_receipt(split, index, shard)
    assert folders.read_receipts() == made
    assert folders.count_finished_rows() == 12


def test_sweeping_removes_what_is_unfinished_and_nothing_else(tmp_path):
    _publish(tmp_path / "aaaaaaaaaaaa")
    for name in (
        "bbbbbbbbbbbb",
        "cccccccccccc-2",
        "_tmp-1",
        f"_tmp-{_BUILD}-1",
        "mine",
        "aaaa-mine",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    for name in ("corrections.jsonl", "current.json.77-00000000.tmp", "old.json.7-00000000.tmp"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "old.json.7-00000000.tmp", (0, 0))
    record_folders.sweep(str(tmp_path), "bbbbbbbbbbbb")
    left = [
        "mine",
        "aaaaaaaaaaaa",
        "aaaa-mine",
        "corrections.jsonl",
        "current.json.77-00000000.tmp",
    ]
    assert sorted(_names(tmp_path)) == sorted(left)


def _names(folder):
    return [name for name in os.listdir(folder) if not name.startswith(".lock")]


def test_sweeping_leaves_folders_in_use(tmp_path):
    folders = record_folders.prepare(str(tmp_path), _BUILD)
    elsewhere = record_folders.prepare(str(tmp_path), "b" * 12)
    job = {"build": elsewhere.build_name, "temporary": elsewhere.temporary_name}
    pathlib.Path(record_folders.name_job_file(str(tmp_path), "b" * 12)).write_text(json.dumps(job))
    before = _names(tmp_path)
    with record_folders.hold_lock(str(tmp_path), _BUILD):
        record_folders.sweep(str(tmp_path), "a" * 12)
        assert _names(tmp_path) == before
    record_folders.sweep(str(tmp_path), "a" * 12)
    left = {*_names(tmp_path)}
    assert left == {*before} - {folders.build_name, folders.temporary_name}


def test_dead_letters_of_failed_runs_stay_until_their_settings_are_used_again(tmp_path):
    (tmp_path / _BUILD / "dead_letter").mkdir(parents=True)
    (tmp_path / _BUILD / "dead_letter" / "train.jsonl").touch()
    (tmp_path / _BUILD / "train-00000-of-00001.tfrecord").touch()
    record_folders.sweep(str(tmp_path), "a" * 12)
    assert os.listdir(tmp_path / _BUILD) == ["dead_letter"]
    for base in (_BUILD, "a" * 12):
        assert record_folders.find_letters(str(tmp_path), base) == [
            f"{tmp_path}/{_BUILD}/dead_letter/train.jsonl"
        ]
    _publish(tmp_path / "aaaaaaaaaaaa")
    assert record_folders.find_letters(str(tmp_path), "a" * 12) == []
    record_folders.sweep(str(tmp_path), _BUILD)
    assert _names(tmp_path) == ["aaaaaaaaaaaa"]


def test_a_lock_is_free_or_not(tmp_path):
    with (
        record_folders.try_lock(str(tmp_path), _BUILD) as first,
        record_folders.try_lock(str(tmp_path), _BUILD) as second,
    ):
        assert (first, second) == (True, False)
    with record_folders.try_lock(str(tmp_path), _BUILD) as again:
        assert again


def test_without_locks_nothing_of_others_is_removed(tmp_path, monkeypatch):
    made = record_folders.prepare(str(tmp_path), _BUILD)

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    record_folders.sweep(str(tmp_path), "a" * 12)
    assert os.path.isdir(made.build) and os.path.isdir(made.temporary)


def test_a_lock_on_gs_is_free_or_not(cloud):
    with record_folders.try_lock(cloud.root, _BUILD) as first:
        assert first
    assert cloud.names() == []


def test_a_file_system_without_locks_keeps_no_process_from_working(tmp_path, monkeypatch):
    def refuse(descriptor, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with record_folders.hold_lock(str(tmp_path)):
        pass


def test_a_second_process_waits_and_names_the_holder(tmp_path):
    script = (
        "import sys; from preprocessing.shards import record_folders\n"
        "with record_folders.hold_lock(sys.argv[1], 'b' * 12):\n"
        "    print('held', flush=True); sys.stdin.read()"
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
    with record_folders.hold_lock(str(tmp_path), "b" * 12):
        assert (tmp_path / ".lock-bbbbbbbbbbbb").read_text() == f"{os.getpid()}\n"
