"""The whole job in this process: golden records, bad input, re-runs, and places that fail."""

from __future__ import annotations

import os
import pathlib
import socket
import struct
import subprocess

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.config import config_file
from pipeline.records import manifest, shard_check
from preprocessing.runners import beam_options
from preprocessing.sources import base
from preprocessing.sources.idx import IdxSource
from tests.golden import regenerate
from tests.preprocessing import idx_files, table_runs, tables
from tests.preprocessing.build import runs
from tests.preprocessing.build.runs import ROWS


def _examples(folder, split: manifest.Split) -> list[tuple[bytes, int]]:
    """Reads a split as the trainer does."""
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    found = []
    paths = [str(folder / shard.path) for shard in split.shards]
    for batch in tf.data.TFRecordDataset(paths).batch(32):
        parsed = tf.io.parse_example(batch, features)
        found += zip(parsed["image"].numpy(), parsed["label"].numpy().tolist(), strict=True)
    return found


def test_golden_raw_files(tmp_path):
    regenerate.write_raw(tmp_path)
    for path in (regenerate.HERE / "raw").iterdir():
        if path.suffix != ".gz":  # how zlib compresses may change, what it holds may not
            assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_golden_records(root):
    loaded = config_file.load(str(regenerate.CONFIG))
    made, _ = runs.run(loaded, root)
    folder = runs.folder(root, loaded)
    assert (folder / "manifest.json").read_text() == (
        regenerate.RECORDS / "manifest.json"
    ).read_text()
    for split in made.splits.values():
        for shard in split.shards:
            golden = regenerate.RECORDS / pathlib.Path(shard.path).name
            assert (folder / shard.path).read_bytes() == golden.read_bytes()


def test_every_row_arrives_once_and_unchanged(tiny, root):
    made, said = runs.run(tiny, root)
    shard_check.verify(str(runs.folder(root, tiny)), made, contents=True)
    train, held, test = (
        _examples(runs.folder(root, tiny), made.splits[name]) for name in ("train", "eval", "test")
    )
    pixels = [image.tobytes() for image in idx_files.images(ROWS)]
    labels = idx_files.labels(ROWS).tolist()
    assert sorted(train + held) == sorted(zip(pixels, labels, strict=True))
    assert sorted(test) == sorted(zip(pixels[:20], labels, strict=False))
    assert train != sorted(train, key=lambda e: pixels.index(e[0])), "must be shuffled"
    assert 0 < len(held) < ROWS / 3
    assert [len(made.splits[name].shards) for name in ("train", "eval", "test")] == [3, 1, 1]
    assert f"reading {ROWS} records of train from {tiny.data.inputs['train']['images']}" in said
    assert "running on Beam's FnApiRunner, workers: 1" in said
    assert f"train {len(train)}, eval {len(held)}, test 20: 80 records in " in said


def test_many_chunks_and_workers_give_the_same_bytes(tiny, root, tmp_path):
    runs.run(tiny, root)
    whole = table_runs.files(runs.folder(root, tiny))
    sizes = base.Sizes(7 * 784, 14 * 784)
    runs.run(tiny, tmp_path / "chunked", sizes=sizes)
    assert table_runs.files(runs.folder(tmp_path / "chunked", tiny)) == whole
    runs.run(tiny, tmp_path / "workers", num_workers=2, sizes=sizes)
    assert table_runs.files(runs.folder(tmp_path / "workers", tiny)) == whole


def test_plain_and_gz_give_the_same_records(tmp_path, root):
    shards = []
    for packed in (False, True):
        inputs = {"train": idx_files.write_pair(tmp_path / str(packed), "t", ROWS, packed=packed)}
        made, _ = runs.run(idx_files.make_config(inputs), root)
        shards.append([s.crc32c for split in made.splits.values() for s in split.shards])
    assert shards[0] == shards[1]


def test_more_shards_than_rows_leaves_some_empty(tmp_path, root):
    inputs = {"train": idx_files.write_pair(tmp_path, "train", 3)}
    job_config = idx_files.make_config(inputs, shards={"train": 20}, split={"eval": 0})
    made, _ = runs.run(job_config, root)
    shard_check.verify(str(runs.folder(root, job_config)), made, contents=True)
    assert sum(shard.records == 0 for shard in made.splits["train"].shards) >= 17
    assert made.splits["train"].records == 3


def _break_label(inputs):
    with open(inputs["labels"], "r+b") as file:
        file.seek(8 + 33)
        file.write(b"\x0b")


def _truncate(inputs):
    os.truncate(inputs["images"], 1000)


def _wrong_magic(inputs):
    with open(inputs["images"], "r+b") as file:
        file.write(b"\x89PNG")


def _other_count(inputs):
    with open(inputs["labels"], "wb") as file:
        file.write(struct.pack(">HBBI", 0, 8, 1, 3) + bytes(3))


def _missing(inputs):
    os.unlink(inputs["images"])


def _empty(inputs):
    os.truncate(inputs["labels"], 0)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_break_label, r"train-labels': row 33: column 'label' is 11, allowed is 0 to 9"),
        (_truncate, r"train-images': truncated: 1000 bytes, its header says 47056"),
        (_wrong_magic, r"train-images': begins with 89504e47, must be 00000803"),
        (_other_count, r"has 60 images, '.*train-labels' has 3 labels"),
        (_missing, r"train-images': no such file"),
        (_empty, r"train-labels': no bytes"),
    ],
)
def test_bad_input_ends_with_65_and_leaves_nothing(tiny, root, damage, message):
    damage(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError, match=message) as info:
        runs.run(tiny, root)
    assert info.value.exit_code == 65
    assert "\n" not in str(info.value)
    runs.assert_nothing_is_left(runs.records(root, tiny))


def test_bad_input_met_by_a_worker_process(tiny, root, capfd):
    _break_label(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError, match=r"row 33: column 'label' is 11, allowed is 0 to 9"):
        runs.run(tiny, root, num_workers=2)
    runs.assert_nothing_is_left(runs.records(root, tiny))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("damage", [_break_label, _wrong_magic, _missing])
def test_bad_input_leaves_published_records_as_they_are(tiny, root, damage):
    runs.run(tiny, root)
    before = table_runs.files(runs.records(root, tiny))
    damage(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError):
        runs.run(tiny, root)
    assert table_runs.files(runs.records(root, tiny)) == before


def test_a_wrong_rule_leaves_published_records_as_they_are(tiny, root):
    runs.run(tiny, root)
    before = table_runs.files(runs.records(root, tiny))
    label = tiny.data.columns["label"].model_copy(update={"max": 5})
    data = tiny.data.model_copy(update={"columns": {**tiny.data.columns, "label": label}})
    with pytest.raises(errors.DataError, match="allowed is 0 to 5"):
        runs.run(tiny.model_copy(update={"data": data}), root)
    assert table_runs.files(runs.records(root, tiny)) == before


def test_the_error_is_gone_when_the_input_is_repaired(tiny, root):
    _break_label(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError):
        runs.run(tiny, root)
    raw = pathlib.Path(tiny.data.inputs["train"]["labels"])
    raw.write_bytes(idx_files.idx_bytes(idx_files.labels(ROWS)))
    made, _ = runs.run(tiny, root)
    assert made.splits["train"].records > 0


def test_a_bug_keeps_its_traceback(tiny, root, monkeypatch):
    monkeypatch.setattr(IdxSource, "read", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runs.run(tiny, root)
    runs.assert_nothing_is_left(runs.records(root, tiny))


@pytest.mark.parametrize("place", ["a_file", "a_file/below", "/proc/nothing", "/dev/null/x"])
def test_storage_that_cannot_be_written(tiny, tmp_path, place):
    (tmp_path / "a_file").touch()
    with pytest.raises(errors.UsageError, match=r"cannot .*Choose a place you can write") as info:
        runs.run(tiny, tmp_path / place)
    assert info.value.exit_code == 64 and "\n" not in str(info.value)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_full_disk(tmp_path, small_disk, workers):
    inputs = {"train": idx_files.write_pair(tmp_path / "raw", "train", 1000)}
    job_config = idx_files.make_config(inputs)
    with pytest.raises(errors.RetryableError, match=r"No space left on device\. Free some") as info:
        runs.run(job_config, small_disk, num_workers=workers)
    assert info.value.exit_code == 75
    runs.assert_nothing_is_left(runs.records(small_disk, job_config))


def test_nothing_is_connected_to(tiny, root, monkeypatch):
    """FnApiRunner is pinned: Beam's default would download a runner
    (docs/tensorflow-pitfalls.md#directrunner-downloads-a-program)."""

    def refuse(_, address):
        raise AssertionError(f"connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    made, _ = runs.run(tiny, root)
    assert made.splits["test"].records == 20
    assert beam_options.find_runner_name(beam_options.build([], 1)) == "FnApiRunner"


def test_a_flag_beam_does_not_have(tiny, root):
    with pytest.raises(errors.UsageError, match="Beam has no --nonsense"):
        runs.run(tiny, root, pipeline_options=["--nonsense=1"])
    runs.assert_nothing_is_left(runs.records(root, tiny))


def test_what_the_step_date_cannot_read_draws_a_warning(tmp_path, root):
    path = tmp_path / "days.csv"
    days = ["2020-01-31"] * 90 + ["1/31/2020"] * 7 + ["soon"] * 3
    path.write_text("\n".join(["when,label", *(f"{day},1" for day in days), ""]))
    columns = {"when": {"type": "string"}, "label": {"type": "int64"}}
    tree = tables.make_config(path, columns).model_dump(mode="json")
    step = {"date": {"part": "month"}}
    tree["features"] = {"month": {"of": "when", "steps": [step, {"identity": {"ids": 13}}]}}
    said = runs.run(config_file.validate(tree, where="test"), root)[1]
    assert (
        "warning: train: column 'when': 10 values are no dates in the form iso, such as "
        "'1/31/2020'. The step date makes -1 of that"
    ) in said
    month = tree["features"].pop("month")
    assert "no date" not in runs.run(config_file.validate(tree, where="test"), root)[1]
    tree["features"]["month"] = month
    again = runs.run(config_file.validate(tree, where="test"), root)[1]
    assert "up to date" in again, "features are no part of a build"
    assert "warning: train: column 'when': " in again and "no dates in the form iso" in again
    tree["data"]["columns"]["when"]["dates"] = "iso"
    with pytest.raises(errors.DataError, match="'1/31/2020', no day of the calendar in the form"):
        runs.run(config_file.validate(tree, where="test"), root)


def test_more_shards_than_full_blocks_draw_a_warning(tiny, root):
    few = tiny.data.model_copy(update={"shards": {"train": 30, "test": 2}, "block_records": 10})
    made, said = runs.run(tiny.model_copy(update={"data": few}), root)
    assert len(made.splits["train"].shards) == 30
    assert said.count("shards for") == 1
    records = made.splits["train"].records
    assert f"warning: train has 30 shards for {records} records" in said
    assert f"Set data.shards.train to {records // 10} or less" in said
    enough = few.model_copy(update={"shards": {"train": records // 10, "test": 2}})
    assert "shards for" not in runs.run(tiny.model_copy(update={"data": enough}), root)[1]
