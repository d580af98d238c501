"""Which checkpoints and splits of a run are evaluated again."""

from __future__ import annotations

import shutil

import pytest

from pipeline import errors
from pipeline.records import manifest
from tests.trainer import small_checkpoints
from trainer.checkpoints import read_errors
from trainer.metrics import one_pass, report_page
from trainer.reevaluation import Reevaluation


@pytest.fixture
def judged(finished, small_records):
    def build(split=None, slices=(), run=None):
        return Reevaluation(run or finished.run, small_records.folder, split, slices=slices)

    return build


def test_checkpoints(judged, finished):
    one = judged()
    prefix = f"{finished.run.path}/model.ckpt-"
    assert one.find_checkpoints(None) == [f"{prefix}300"]
    assert one.find_checkpoints("200") == [f"{prefix}200"]
    assert one.find_checkpoints("all")[-2:] == [f"{prefix}200", f"{prefix}300"]
    best = finished.run.read("best.json")["step"]
    (kept,) = one.find_checkpoints("best")
    assert kept == f"{finished.run.path}/best/model.ckpt-{best}"
    assert list(one.evaluate(kept)) == ["eval", "test"]
    with pytest.raises(
        errors.UsageError, match=r"--checkpoint '250': must be best, all or one of .*300"
    ):
        one.find_checkpoints("250")


def test_an_unknown_split(judged):
    with pytest.raises(
        errors.UsageError,
        match="--split 'dev': has no records; there are some in train, eval, test",
    ):
        judged("dev")


def test_a_column_there_is_not(judged):
    with pytest.raises(errors.UsageError, match=r"--slices 'labl': not one of .* 'label'\?\)$"):
        judged("test", ["labl"])


def test_a_slice_for_each_value(judged, capsys):
    one = judged("test", ["label"])
    (found,) = one.evaluate(one.find_checkpoints("200")[0]).values()
    slices = [row.slice for row in found.results[None].rows]  # the most frequent first
    assert slices[0] == "all"
    assert sorted(slices[1:]) == [f"label={n}" for n in range(10)]
    assert 0 < found.metrics["accuracy"] <= 1
    assert one.format_table({"test": found.metrics}).splitlines()[0] == "run finished, step 200"


def test_metrics_of_a_train_split_that_is_a_sample_have_a_note(judged, monkeypatch, small_records):
    """Probabilities are corrected to those of all rows, and calibration is of those that stayed."""
    rule = manifest.Sampled(column="label", value=0, keep=0.25, dropped=1234)
    contents = manifest.read(small_records.folder).model_copy(update={"sampled": rule})
    monkeypatch.setattr(manifest, "read", lambda _: contents)
    notes = {}
    for split in ("train", "test"):
        one = judged(split)
        [found] = one.evaluate(one.find_checkpoints("200")[0]).values()
        notes[split] = report_page.build_content(found.results[None])["notes"]
    assert notes["train"][0] == (
        "data.sample keeps 25 % of the rows of train with 0 in label; 1,234 were left out. "
        "So calibration, log loss and others of train are not those of all rows."
    )
    assert not any("data.sample" in note for note in notes["test"])


@pytest.mark.parametrize("policy", ["fail", "skip_block"])
def test_a_damaged_record_is_named(finished, small_records, tmp_path, policy):
    shutil.copytree(small_records.folder, tmp_path / "records")
    path = tmp_path / "records" / small_records.contents.split("test").shards[0].path
    content = bytearray(path.read_bytes())
    content[100:104] = b"\0\1\2\3"
    path.write_bytes(content)
    data = finished.job.data.model_copy(update={"on_corrupt": policy})
    job = finished.job.model_copy(update={"data": data})
    folder = str(tmp_path / "records")
    one = Reevaluation(finished.run, folder, "test", slices=(), job=job)
    before = sorted(finished.path.iterdir())
    with pytest.raises(
        errors.DataError, match=rf"^shard {path}: block 0, byte 0, record 0: .* CRC"
    ):
        one.evaluate(one.find_checkpoints(None)[0])
    assert sorted(finished.path.iterdir()) == before


def test_a_checkpoint_that_training_deletes(judged, finished, tmp_path, monkeypatch):
    run = finished.copy(tmp_path, 200, 300)
    one = judged("test", run=run)
    small_checkpoints.remove_after_reading(monkeypatch, 200)
    with pytest.raises(read_errors.Deleted, match=r"ckpt-200': was deleted while it was read"):
        one.evaluate(f"{run.path}/model.ckpt-200")


def test_a_checkpoint_that_training_deletes_between_two_splits(
    judged, finished, tmp_path, monkeypatch
):
    run = finished.copy(tmp_path, 200, 300)
    one, found = judged(run=run), []
    real = one_pass.evaluate

    def evaluate(*given, split, **others):
        found.append((split, real(*given, split=split, **others)))
        small_checkpoints.remove(f"{run.path}/model.ckpt-200")
        return found[-1][1]

    monkeypatch.setattr(one_pass, "evaluate", evaluate)
    (path, newest) = one.find_checkpoints("all")
    with pytest.raises(read_errors.Deleted, match="if reading takes long, one split at a time"):
        read_errors.visit([path], "200", one.evaluate)
    assert [split for split, _ in found] == ["eval"]
    assert len(read_errors.visit([path, newest], "all", one.evaluate)) == 1


def test_a_checkpoint_that_is_damaged_meanwhile_is_no_damaged_record(judged, finished, tmp_path):
    run = finished.copy(tmp_path, 200)
    one = judged("test", run=run)
    (path,) = one.find_checkpoints("200")
    small_checkpoints.cut_data(path)
    with pytest.raises(errors.DataError, match=r"ckpt-200': is damaged \(.* is cut off at byte"):
        one.evaluate(path)
