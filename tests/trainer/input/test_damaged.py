"""Damaged and unparseable records: named, or left out of training and said so in the ledger."""

from __future__ import annotations

import json
import pathlib
import shutil

import google_crc32c
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import manifest, quarantine, tfrecord
from pipeline.runs import run_folder
from trainer.input import damaged
from trainer.input.dataset import RecordDataset

POLICY = ("data.on_corrupt=skip_block", "data.corrupt_budget=0.05")
# One epoch and a half of 2,847 records.
SHORT = ("train.steps=42", "train.batch_size=100", "train.save_steps=100")


def _payloads(small, split="train"):
    shard = small.contents.split(split).shards[0]
    return list(tfrecord.read(f"{small.folder}/{shard.path}"))


def _example(**features) -> bytes:
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


UNPARSEABLE = {
    "no example": (b"\xff\xff junk", "it is not a tf.train.Example"),
    "a feature is missing": (_example(label=_int(1)), "image"),
    "another type": (_example(image=_bytes(bytes(784)), label=_bytes(b"1")), "label"),
    "another length": (_example(image=_bytes(bytes(783)), label=_int(1)), "783"),
}


@pytest.mark.parametrize(("payload", "told"), UNPARSEABLE.values(), ids=UNPARSEABLE)
def test_what_the_parser_of_the_input_refuses_is_found(small_records, transforms, payload, told):
    check = damaged.build_check(transforms.columns)
    good = _payloads(small_records)[:5]
    assert check(good) is None
    number, what = check([*good[:3], payload, *good[3:], payload])
    assert number == 3
    assert told in what and "\n" not in what


@pytest.fixture
def own(small_records, tmp_path):
    """A copy of the records and the flags to train on it."""
    folder = tmp_path / "records" / "small"
    shutil.copytree(small_records.folder, folder)
    return folder


def _flags(task_flags, folder, *overrides):
    return task_flags("own", *SHORT, *overrides, storage=str(folder.parent.parent))


def _flip(folder, contents, block):
    """Damages the second record of a block of the first shard; returns the shard's path."""
    shard = contents.split("train").shards[0]
    path = folder / shard.path
    content = bytearray(path.read_bytes())
    first = len(tfrecord.frame(next(tfrecord.read(str(path), shard.blocks[block], 1))))
    at = shard.blocks[block] + first
    content[at + 40] ^= 1
    path.write_bytes(content)
    return f"shard {path}: block {block}, byte {at}, record {block * contents.block_records + 1}"


def _replace(folder, contents, payload):
    """Puts a record with right checksums in, and into the manifest, as if it had been written so.

    It is the first of the second block of the first shard."""
    shard = contents.split("train").shards[0]
    path = folder / shard.path
    payloads = list(tfrecord.read(str(path)))
    payloads[contents.block_records] = payload
    frames = [tfrecord.frame(one) for one in payloads]
    path.write_bytes(b"".join(frames))
    starts = [sum(map(len, frames[:at])) for at in range(0, len(frames), contents.block_records)]
    new = shard.model_copy(
        update={
            "blocks": tuple(starts),
            "bytes": path.stat().st_size,
            "crc32c": f"{google_crc32c.value(path.read_bytes()):08x}",
        }
    )
    train = contents.split("train")
    train = train.model_copy(update={"shards": (new, *train.shards[1:])})
    manifest.write(
        str(folder), contents.model_copy(update={"splits": {**contents.splits, "train": train}})
    )
    return f"shard {path}: block 1, byte {starts[1]}, record {contents.block_records}"


def _characters_read() -> int:
    """Returns how many bytes this process has read, wherever they came from."""
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


@pytest.mark.parametrize("overrides", [(), POLICY], ids=["fail", "skip_block"])
def test_a_restart_reads_no_shard_again_but_those_that_have_changed(
    small_records, own, tmp_path, overrides
):
    job = small_records.config(*overrides)
    run = run_folder.RunFolder(str(tmp_path / "run"))
    found = RecordDataset(job, str(own), small_records.contents)
    shards = [s for split in small_records.contents.splits.values() for s in split.shards]
    total = sum(shard.bytes for shard in shards)

    def settle():
        counted = []
        run.remove(run_folder.EXCLUDED)  # as each start does
        before = _characters_read()
        excluded = damaged.exclude_damaged(run, found, counted.append)
        return excluded, sum(counted), _characters_read() - before

    excluded, counted, read = settle()
    assert (excluded, counted) == ({}, total) and read >= total
    excluded, counted, read = settle()
    assert (excluded, counted) == ({}, total) and read < total / 4
    _flip(own, small_records.contents, 2)
    if overrides:
        assert settle()[0] == {"train": frozenset({2})}
    else:
        with pytest.raises(errors.DataError, match=r"it was altered|CRC of its payload"):
            settle()


def test_to_fail_names_shard_block_and_offset_before_the_first_step(
    commands, task_flags, small_records, own
):
    where = _flip(own, small_records.contents, 2)
    output = commands.run("trainer.task", *_flags(task_flags, own), code=65)
    assert f"{where}: the CRC of its payload is wrong" in output
    assert not list(own.parent.parent.glob("runs/own/model.ckpt-*"))


def test_a_record_that_only_the_parser_refuses_is_named_when_it_is_met(
    commands, task_flags, small_records, own
):
    where = _replace(own, small_records.contents, _example(label=_int(1)))
    output = commands.run("trainer.task", *_flags(task_flags, own), code=65)
    line = next(line for line in output.splitlines() if line.startswith("error: "))
    assert where in line
    assert "image" in line and "data.on_corrupt=skip_block" in line


def _run(folder):
    return run_folder.RunFolder(str(folder.parent.parent / "runs" / "own"))


@pytest.mark.parametrize("damage", [_flip, _replace])
def test_a_skipped_block_is_in_the_ledger_as_such(commands, task_flags, small_records, own, damage):
    contents = small_records.contents
    damage(own, contents, 1 if damage is _flip else b"junk")
    commands.run("trainer.task", *_flags(task_flags, own, *POLICY))
    run = _run(own)
    assert run.read(run_folder.EXCLUDED)["blocks"] == {"train": [1]}
    result = json.loads((own.parent.parent / "runs/own/RESULT.json").read_text())
    first, second = result["input"]
    assert first["skipped"] == contents.block_records == second["skipped"]
    assert first["once"] == contents.split("train").records - contents.block_records
    assert first["left"] == first["more"] == first["never"] == 0
    assert first["once"] + second["once"] == 42 * 100


def test_what_is_left_out_is_reported_everywhere(commands, task_flags, small_records, own):
    """A block that cannot be read, and a shard that a repair has taken out of the manifest."""
    contents = small_records.contents
    _flip(own, contents, 1)
    gone = manifest.LeftOut(split="train", path="build/gone", records=700)
    manifest.write(str(own), contents.model_copy(update={"left_out": (gone,)}))
    output = commands.run("trainer.task", *_flags(task_flags, own, *POLICY))
    run = _run(own)
    counts = {"train": {"unreadable": contents.block_records, "repaired": 700}}
    assert run.read(run_folder.RESULT)["left_out"] == counts
    lines = quarantine.describe(counts)
    assert len(lines) == 2
    cards = list(pathlib.Path(run.exports).glob("final/*/assets.extra/model_card.md"))
    told = run_folder.read_statuses(run)["chief-0"].note
    report = commands.run("trainer.ledger_report", f"--storage={own.parent.parent}")
    for line in lines:
        for text in (output, told, cards[0].read_text(), report):
            assert line in text


@pytest.mark.slow
def test_a_quarantined_shard_and_a_damaged_eval_split(commands, task_flags, small_records, own):
    contents = small_records.contents
    _flip(own, contents, 0)
    path = own / contents.split("eval").shards[0].path
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    settings = ("data.on_corrupt=quarantine_shard", "data.corrupt_budget=0.6")
    output = commands.run("trainer.task", *_flags(task_flags, own, *settings), code=65)
    assert "no record of split 'eval' would be left" in output
    commands.run("trainer.task", *_flags(task_flags, own, *POLICY))
    assert set(_run(own).read(run_folder.EXCLUDED)["blocks"]) == {"train", "eval"}


@pytest.mark.slow
def test_more_than_the_budget_fails_and_a_larger_budget_resumes(
    commands, task_flags, small_records, own
):
    where = _flip(own, small_records.contents, 2)
    tight = ("data.on_corrupt=skip_block", "data.corrupt_budget=31")
    output = commands.run("trainer.task", *_flags(task_flags, own, *tight), code=65)
    assert "32 of 3,500 records would be left out, data.corrupt_budget 31 allows 31" in output
    assert where in output
    commands.run("trainer.task", *_flags(task_flags, own, *POLICY))


def test_evaluation_reads_all_but_what_is_left_out(small_records):
    whole = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    less = RecordDataset(
        small_records.job,
        small_records.folder,
        small_records.contents,
        excluded={"test": frozenset({1, 9})},
    )
    images = [
        [
            image.tobytes()
            for features, _ in of.build_eval_input_fn("test")()
            for image in features["image"].numpy()
        ]
        for of in (whole, less)
    ]
    bounds = whole.list_blocks("test").records.cumsum()
    expected = [
        image
        for number, image in enumerate(images[0])
        if int((bounds <= number).sum()) not in (1, 9)
    ]
    assert images[1] == expected
    assert len(images[0]) - len(images[1]) == 64


def test_an_error_that_no_record_explains_is_left_as_it_is(small_records, tmp_path):
    run = run_folder.RunFolder(str(tmp_path))
    whole = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    for error in (
        tf.errors.DataLossError(None, None, "checkpoint"),
        tf.errors.InvalidArgumentError(None, None, "shapes [[IteratorGetNext]]"),
        errors.ModelError("x"),
    ):
        assert damaged.explain(error, whole, run) is error
