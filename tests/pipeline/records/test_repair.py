"""`make verify` and its repair: what is left is listed, what is not is told, nothing is lost."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.records import manifest, repair, shard_check, tfrecord
from tests import record_sets

TRAIN = [[b"a%d" % n * (n + 1) for n in range(10)], [b"b%d" % n * 9 for n in range(6)], []]
TEST = [[b"test"]]


@pytest.fixture
def made(tmp_path):
    written = record_sets.write(tmp_path, {"train": TRAIN, "test": TEST}, block_records=4)
    statistics = manifest.Statistics(columns={"label": manifest.ColumnStatistics(count=16)})
    written = written.model_copy(update={"statistics": {"train": statistics}})
    manifest.write(str(tmp_path), written)
    return written


def _damage(folder, name="train-1"):
    path = folder / "build" / f"{name}.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    return path


def _read_all(folder, contents, split):
    return [
        list(tfrecord.read(str(folder / shard.path))) for shard in contents.splits[split].shards
    ]


def test_intact_records_are_counted(tmp_path, made, capsys):
    repair.verify(str(tmp_path))
    assert capsys.readouterr().out == (
        f"{tmp_path}: intact, train 16 records in 3 shards, test 1 records in 1 shards\n"
    )
    assert repair.run(str(tmp_path)) == made
    assert [path.name for path in tmp_path.glob("*.json")] == ["manifest.json"]


def test_damage_is_listed_and_summed_up(tmp_path, made, capsys):
    path = _damage(tmp_path)
    with pytest.raises(errors.DataError) as caught:
        repair.verify(str(tmp_path))
    assert str(caught.value).startswith(
        f"1 of 4 shards are damaged, the first is {str(path)!r} (cut"
    )
    assert "2 of 17 records are in damaged blocks" in str(caught.value)
    assert str(caught.value).endswith(shard_check.ways_out(str(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: cut: ")
    assert lines[1].startswith(f"{path}: block 1, byte 170, record 5: truncated")


def test_a_repair_leaves_out_and_reports_damaged_blocks(tmp_path, made, capsys):
    _damage(tmp_path)
    repaired = repair.run(str(tmp_path))
    assert repaired == manifest.read(str(tmp_path))
    assert repaired.splits["train"].records == 10
    assert _read_all(tmp_path, repaired, "train") == [TRAIN[0], []]
    assert repaired.splits["test"] == made.splits["test"]
    (left,) = repaired.left_out
    assert (left.split, left.path, left.records) == ("train", "build/train-1.tfrecord", 6)
    # Those of all records, and marked so.
    assert repaired.statistics == made.statistics
    told = capsys.readouterr().out
    assert "left out: build/train-1.tfrecord, 6 records of train" in told
    assert "statistics are still those of all records" in told
    repair.verify(str(tmp_path))


def test_the_manifest_before_a_repair_is_kept(tmp_path, made):
    path = _damage(tmp_path)
    whole = path.read_bytes()
    repair.run(str(tmp_path))
    (kept,) = tmp_path.glob("manifest-*.json")
    assert kept.name == f"manifest-{made.sha256[:12]}.json"
    assert kept.read_text() == made.to_json()
    # Put back, it is what it was.
    path.write_bytes(whole)
    kept.rename(tmp_path / "manifest.json")
    assert manifest.read(str(tmp_path)) == made


def test_repairs_add_up(tmp_path, made):
    _damage(tmp_path)
    repair.run(str(tmp_path))
    _damage(tmp_path, "test-0")
    repaired = repair.run(str(tmp_path))
    assert [left.path for left in repaired.left_out] == [
        "build/train-1.tfrecord",
        "build/test-0.tfrecord",
    ]
    assert repaired.splits["test"].records == 0


def test_exchanged_files_are_found_under_each_other_s_names(tmp_path, made):
    first, second = (tmp_path / "build" / f"train-{n}.tfrecord" for n in (0, 1))
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    repaired = repair.run(str(tmp_path))
    assert _read_all(tmp_path, repaired, "train") == TRAIN
    assert repaired.left_out is None


def test_a_copy_is_not_listed_twice(tmp_path, made):
    first, second = (tmp_path / "build" / f"train-{n}.tfrecord" for n in (0, 1))
    first.write_bytes(second.read_bytes())
    repaired = repair.run(str(tmp_path))
    assert _read_all(tmp_path, repaired, "train") == [TRAIN[1], []]


def test_shards_that_hold_the_same_are_listed_once_each(tmp_path):
    """Several are empty where there are fewer rows than shards."""
    shards = [[b"a"], [b"b"], [b"b"], [], []]
    contents = record_sets.write(tmp_path, {"train": shards, "test": [[]]}, block_records=4)
    _damage(tmp_path, "train-0")
    repaired = repair.run(str(tmp_path))
    assert manifest.read(str(tmp_path)) == repaired
    kept = [shard.path for shard in repaired.splits["train"].shards]
    assert kept == [shard.path for shard in contents.splits["train"].shards[1:]]


def test_a_damaged_shard_is_not_replaced_by_one_that_holds_the_same(tmp_path):
    record_sets.write(tmp_path, {"train": [[b"a"], [b"b"], [b"b"]]}, block_records=4)
    _damage(tmp_path, "train-1")
    repaired = repair.run(str(tmp_path))
    assert _read_all(tmp_path, manifest.read(str(tmp_path)), "train") == [[b"a"], [b"b"]]
    assert [left.path for left in repaired.left_out] == ["build/train-1.tfrecord"]


def test_nothing_is_written_if_nothing_would_be_left(tmp_path, made):
    for name in ("train-0", "train-1"):
        _damage(tmp_path, name)
    with pytest.raises(errors.DataError, match="nothing to train on would be left"):
        repair.run(str(tmp_path))
    assert manifest.read(str(tmp_path)) == made
    assert [path.name for path in tmp_path.glob("*.json")] == ["manifest.json"]
