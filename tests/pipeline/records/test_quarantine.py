"""What each policy leaves out, what it costs the budget, and that all processes hear the same."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.records import manifest, quarantine, scan
from pipeline.runs import run_folder
from tests import record_sets
from tests.preprocessing import idx_files

# Blocks of 4: of train 3, 2 and none, of test 2.
TRAIN = [[b"a%d" % n * 7 for n in range(10)], [b"b%d" % n * 9 for n in range(6)], []]
TEST = [[b"t%d" % n for n in range(6)]]


@pytest.fixture
def folder(tmp_path):
    record_sets.write(tmp_path, {"train": TRAIN, "test": TEST}, block_records=4)
    return tmp_path


def _flip(folder, name, at):
    path = folder / "build" / f"{name}.tfrecord"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def _decide(folder, **data):
    contents = manifest.read(str(folder))
    settings = idx_files.make_config({"train": {"images": "i", "labels": "l"}}, **data).data
    walked = scan.walk(str(folder), contents)
    return quarantine.decide(walked, contents, settings, folder=str(folder))


def test_nothing_is_left_out_of_intact_records(folder):
    for policy in ("fail", "skip_block", "quarantine_shard"):
        assert _decide(folder, on_corrupt=policy, corrupt_budget=0) == {}


def test_to_fail_names_shard_block_and_offset(folder):
    _flip(folder, "train-1", -1)
    at = 5 * (16 + 18)
    with pytest.raises(
        errors.DataError,
        match=rf"^shard {folder}/build/train-1.tfrecord: block 1, byte {at}, record 5: the CRC of"
        rf".* make verify RECORDS={folder} REPAIR=1$",
    ):
        _decide(folder)


def test_a_block_or_its_whole_shard(folder):
    _flip(folder, "train-1", -1)
    found = _decide(folder, on_corrupt="skip_block", corrupt_budget=2)
    assert found == {"train": {4}}
    contents = manifest.read(str(folder))
    assert quarantine.records_in(found, contents) == {"train": 2}
    found = _decide(folder, on_corrupt="quarantine_shard", corrupt_budget=6)
    assert found == {"train": {3, 4}}
    assert quarantine.records_in(found, contents) == {"train": 6}


def test_other_splits_count_too(folder):
    _flip(folder, "test-0", 0)
    _flip(folder, "train-0", 0)
    found = _decide(folder, on_corrupt="skip_block", corrupt_budget=8)
    assert found == {"train": {0}, "test": {0}}
    with pytest.raises(errors.DataError, match="8 of 22 records would be left out"):
        _decide(folder, on_corrupt="skip_block", corrupt_budget=7)


@pytest.mark.parametrize(("budget", "allows"), [(3, 3), (0.15, 3), (0, 0)])
def test_more_than_the_budget(folder, budget, allows):
    _flip(folder, "train-0", 0)
    with pytest.raises(
        errors.DataError,
        match=rf"4 of 22 records would be left out, data.corrupt_budget {budget} allows {allows}: "
        rf"shard .*train-0.tfrecord: block 0, byte 0, record 0: ",
    ):
        _decide(folder, on_corrupt="skip_block", corrupt_budget=budget)
    assert _decide(folder, on_corrupt="skip_block", corrupt_budget=0.25) == {"train": {0}}


def test_nothing_left_of_a_split(folder):
    for name in ("train-0", "train-1"):
        _flip(folder, name, 0)
    with pytest.raises(errors.DataError, match="no record of split 'train' would be left: shard "):
        _decide(folder, on_corrupt="quarantine_shard", corrupt_budget=22)


def test_what_a_run_does_without_is_counted_by_cause_and_reported(folder):
    contents = manifest.read(str(folder))
    assert quarantine.describe(quarantine.count_left_out({}, contents)) == []
    gone = [manifest.LeftOut(split="train", path=f"build/x-{n}", records=n * 1000) for n in (1, 2)]
    repaired = contents.model_copy(update={"left_out": tuple(gone)})
    found = quarantine.count_left_out(
        {"train": frozenset({1, 4}), "test": frozenset({0})}, repaired
    )
    assert found == {"train": {"unreadable": 6, "repaired": 3000}, "test": {"unreadable": 4}}
    unreadable = "unreadable, see excluded.json of the run (data.on_corrupt)"
    assert quarantine.describe(found) == [
        f"6 records of split train are left out: {unreadable}",
        "3,000 records of split train are left out: their shards were damaged, see manifest.json "
        "(make verify REPAIR=1)",
        f"4 records of split test are left out: {unreadable}",
    ]


def test_what_was_decided_is_read_by_others_until_the_next_start(folder, tmp_path):
    run = run_folder.RunFolder(str(tmp_path / "run"))
    assert quarantine.read(run) == {}
    contents = manifest.read(str(folder))
    _flip(folder, "train-1", -1)
    walked = scan.walk(str(folder), contents)
    excluded = {"train": frozenset({4})}
    quarantine.write(run, excluded, walked=walked, contents=contents)
    quarantine.write(run, excluded, walked=walked, contents=contents)
    assert quarantine.read(run) == excluded
    stored = run.read(run_folder.EXCLUDED)
    assert stored["records"] == {"train": 2}
    assert "train-1.tfrecord: block 1, " in stored["found"][0]
    with pytest.raises(
        errors.DataError, match=r"damaged while the run was under way.* same command"
    ):
        quarantine.write(run, {"train": frozenset({3, 4})}, walked=walked, contents=contents)
