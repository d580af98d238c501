"""The whole job in this process: golden records, bad input, re-runs, and places that fail."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import socket
import struct
import subprocess

import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.console import figures
from pipeline.records import builds, manifest, shard_check
from pipeline.runs import run_folder
from preprocessing.build import attempt, fingerprint, finished, job
from preprocessing.runners import beam_options
from preprocessing.shards import record_folders
from preprocessing.sources import base
from preprocessing.sources.idx import IdxSource
from tests.golden import regenerate
from tests.preprocessing import idx_files

ROWS = 60


@pytest.fixture
def tiny(tmp_path) -> config.Config:
    raw = tmp_path / "raw"
    return idx_files.make_config(
        {
            "train": idx_files.write_pair(raw, "train", ROWS),
            "test": idx_files.write_pair(raw, "test", 20, packed=True),
        }
    )


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    return tmp_path / "output"


def _records(root, job_config) -> pathlib.Path:
    return pathlib.Path(run_folder.records_folder(str(root), job_config.name))


def _folder(root, job_config) -> pathlib.Path:
    """Returns the folder of the current build."""
    return pathlib.Path(builds.current(str(_records(root, job_config))))


def _run(job_config, root, **options) -> tuple[manifest.Manifest, str]:
    """Returns the manifest and what was printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = job.run(job_config, str(root), **options)
    return made, said.getvalue()


def _files(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".lock")
    }


def _assert_nothing_is_left(records: pathlib.Path) -> None:
    assert not list(records.glob("[!.]*")), "only locks stay"


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
    made, _ = _run(loaded, root)
    folder = _folder(root, loaded)
    assert (folder / "manifest.json").read_text() == (
        regenerate.RECORDS / "manifest.json"
    ).read_text()
    for split in made.splits.values():
        for shard in split.shards:
            golden = regenerate.RECORDS / pathlib.Path(shard.path).name
            assert (folder / shard.path).read_bytes() == golden.read_bytes()


def test_every_row_arrives_once_and_unchanged(tiny, root):
    made, said = _run(tiny, root)
    shard_check.verify(str(_folder(root, tiny)), made, contents=True)
    train, held, test = (
        _examples(_folder(root, tiny), made.splits[name]) for name in ("train", "eval", "test")
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
    _run(tiny, root)
    whole = _files(_folder(root, tiny))
    sizes = base.Sizes(7 * 784, 14 * 784)
    _run(tiny, tmp_path / "chunked", sizes=sizes)
    assert _files(_folder(tmp_path / "chunked", tiny)) == whole
    _run(tiny, tmp_path / "workers", num_workers=2, sizes=sizes)
    assert _files(_folder(tmp_path / "workers", tiny)) == whole


def test_plain_and_gz_give_the_same_records(tmp_path, root):
    shards = []
    for packed in (False, True):
        inputs = {"train": idx_files.write_pair(tmp_path / str(packed), "t", ROWS, packed=packed)}
        made, _ = _run(idx_files.make_config(inputs), root)
        shards.append([s.crc32c for split in made.splits.values() for s in split.shards])
    assert shards[0] == shards[1]


def test_more_shards_than_rows_leaves_some_empty(tmp_path, root):
    inputs = {"train": idx_files.write_pair(tmp_path, "train", 3)}
    job_config = idx_files.make_config(inputs, shards={"train": 20}, split={"eval": 0})
    made, _ = _run(job_config, root)
    shard_check.verify(str(_folder(root, job_config)), made, contents=True)
    assert sum(shard.records == 0 for shard in made.splits["train"].shards) >= 17
    assert made.splits["train"].records == 3


def test_a_second_run_does_nothing_and_needs_no_beam(tiny, root, monkeypatch):
    first, _ = _run(tiny, root)
    records = _records(root, tiny)
    before = {p: p.stat().st_mtime_ns for p in records.rglob("[!.]*") if p.is_file()}
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = _run(tiny, root)
    assert again == first
    assert "up to date" in said and "nothing to do" in said
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())


@pytest.mark.parametrize("damage", ["remove", "shorten", "manifest"])
def test_damaged_records_are_made_again(tiny, root, damage):
    made, _ = _run(tiny, root)
    before, whole = _folder(root, tiny).name, _files(_folder(root, tiny))
    shard = _folder(root, tiny) / made.splits["train"].shards[1].path
    if damage == "remove":
        shard.unlink()
    elif damage == "shorten":
        os.truncate(shard, 10)
    else:
        (_folder(root, tiny) / "manifest.json").write_text("{}")
    left = _files(_folder(root, tiny))
    _, said = _run(tiny, root)
    assert _files(_folder(root, tiny)) == whole
    assert _files(_records(root, tiny) / before) == left, "a run may be reading it"
    assert ("; making the records again" in said) is (damage != "manifest")
    assert "1 other build of these records takes " in said


def test_another_config_makes_another_build_and_the_first_is_found_again(tiny, root, monkeypatch):
    first, _ = _run(tiny, root)
    kept, whole = _folder(root, tiny), _files(_folder(root, tiny))
    second, said = _run(idx_files.make_config(dict(tiny.data.inputs), seed=5), root)
    assert first.sha256 != second.sha256
    assert _folder(root, tiny) != kept and _files(kept) == whole
    size = figures.size(builds.size(str(kept)))
    assert f"1 other build of these records takes {size}; make clean-records lists them" in said
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = _run(tiny, root)
    assert again == first and f"{kept}: up to date" in said
    assert _folder(root, tiny) == kept, "what was asked for last is current"


def test_other_bytes_of_the_same_length_make_another_build(tiny, root):
    _run(tiny, root)
    kept, whole = _folder(root, tiny), _files(_folder(root, tiny))
    raw = pathlib.Path(tiny.data.inputs["train"]["labels"])
    raw.write_bytes(raw.read_bytes()[:-1] + b"\x05")
    _run(tiny, root)
    assert _folder(root, tiny).name == f"{kept.name}-2" and _files(kept) == whole


def test_the_build_is_pinned_for_a_run(tiny, root):
    run = run_folder.RunFolder(str(root / "runs" / "a"))
    other = idx_files.make_config(dict(tiny.data.inputs), seed=5)
    _run(tiny, root, for_run=run)
    first = _folder(root, tiny).name
    assert builds.read_pin(run) == builds.Pin(tiny.name, first)
    _run(other, root)
    assert builds.read_pin(run) == builds.Pin(tiny.name, first)
    assert builds.of_run(str(root), run, tiny.name) == str(_records(root, tiny) / first)
    _run(other, root, for_run=run)
    second = _folder(root, tiny).name
    assert builds.read_pin(run) == builds.Pin(tiny.name, second, before=first)


def test_what_killed_runs_left_is_removed(tiny, root):
    folder = _records(root, tiny)
    for name in ("_tmp-0123", "_tmp-0123456789ab-77", "0123456789ab"):
        (folder / name).mkdir(parents=True)
        (folder / name / "train-00000-of-00001.tfrecord").touch()
    _run(tiny, root)
    names = {path.name for path in folder.glob("[!.]*")}
    assert names == {"current.json", _folder(root, tiny).name}


def test_after_a_kill_it_is_said_that_a_run_starts_over(tiny, root):
    base = fingerprint.base(tiny.data, IdxSource(tiny.data).files())
    killed = record_folders.prepare(str(_records(root, tiny)), base)
    pathlib.Path(killed.temporary, "train-000000-0000.rows17.arrow").touch()
    message = "an unfinished run had read 17 rows of these records; starting over"
    assert message in _run(tiny, root)[1]
    assert not os.path.exists(killed.temporary)
    assert message not in _run(tiny, root, force=True)[1]


def test_what_another_process_is_making_is_left_alone(tiny, root):
    folder = _records(root, tiny)
    layout_folders = record_folders.prepare(str(folder), "0123456789ab")
    with record_folders.locked(str(folder), "0123456789ab"):
        _run(tiny, root)
        assert os.path.isdir(layout_folders.build) and os.path.isdir(layout_folders.temporary)
    _run(tiny, root)
    assert not os.path.exists(layout_folders.build) and not os.path.exists(layout_folders.temporary)


def test_inputs_that_cannot_be_hashed_are_made_again_and_kept_once(tiny, root, monkeypatch):
    first, _ = _run(tiny, root)
    whole = _files(_records(root, tiny))
    monkeypatch.setattr(finished, "up_to_date", lambda *_, **__: None)
    again, said = _run(tiny, root)
    assert again == first and "80 records in " in said
    assert _files(_records(root, tiny)) == whole


def test_records_of_an_earlier_version_are_used_again(tiny, root, monkeypatch):
    """They have one manifest, next to the folder of their shards."""
    made, _ = _run(tiny, root)
    folder, build = _records(root, tiny), _folder(root, tiny)
    whole = _files(build)
    _as_earlier_version(folder, build.name)
    assert manifest.read(builds.current(str(folder))).splits["train"].records > 0
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = _run(tiny, root)
    assert "up to date" in said and _folder(root, tiny) == build
    assert again == made.model_copy(update={"settings": None})
    assert {name: content for name, content in _files(build).items() if name in whole} | {
        "manifest.json": whole["manifest.json"]
    } == whole


def _as_earlier_version(folder: pathlib.Path, build: str) -> None:
    """Moves a build to where versions before builds had it."""
    found = manifest.read(str(folder / build))
    splits = {
        name: split.model_copy(
            update={
                "shards": tuple(
                    shard.model_copy(update={"path": f"{build}/{shard.path}"})
                    for shard in split.shards
                )
            }
        )
        for name, split in found.splits.items()
    }
    (folder / build / "manifest.json").unlink()
    (folder / "current.json").unlink()
    manifest.write(str(folder), found.model_copy(update={"splits": splits, "settings": None}))


def test_other_settings_leave_records_of_an_earlier_version(tiny, root):
    _run(tiny, root)
    folder, build = _records(root, tiny), _folder(root, tiny)
    shards = {name: data for name, data in _files(build).items() if name.startswith("t")}
    _as_earlier_version(folder, build.name)
    old = (folder / "manifest.json").read_bytes()
    _run(idx_files.make_config(dict(tiny.data.inputs), seed=5), root)
    assert _folder(root, tiny) != build and shards.items() <= _files(build).items()
    assert (folder / "manifest.json").read_bytes() == old, "runs were started with it"
    shard_check.verify(str(build), manifest.read(str(build)), contents=True)


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
        _run(tiny, root)
    assert info.value.exit_code == 65
    assert "\n" not in str(info.value)
    _assert_nothing_is_left(_records(root, tiny))


def test_bad_input_met_by_a_worker_process(tiny, root, capfd):
    _break_label(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError, match=r"row 33: column 'label' is 11, allowed is 0 to 9"):
        _run(tiny, root, num_workers=2)
    _assert_nothing_is_left(_records(root, tiny))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("damage", [_break_label, _wrong_magic, _missing])
def test_bad_input_leaves_published_records_as_they_are(tiny, root, damage):
    _run(tiny, root)
    before = _files(_records(root, tiny))
    damage(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError):
        _run(tiny, root)
    assert _files(_records(root, tiny)) == before


def test_a_wrong_rule_leaves_published_records_as_they_are(tiny, root):
    _run(tiny, root)
    before = _files(_records(root, tiny))
    label = tiny.data.columns["label"].model_copy(update={"max": 5})
    data = tiny.data.model_copy(update={"columns": {**tiny.data.columns, "label": label}})
    with pytest.raises(errors.DataError, match="allowed is 0 to 5"):
        _run(tiny.model_copy(update={"data": data}), root)
    assert _files(_records(root, tiny)) == before


def test_the_error_is_gone_when_the_input_is_repaired(tiny, root):
    _break_label(tiny.data.inputs["train"])
    with pytest.raises(errors.DataError):
        _run(tiny, root)
    raw = pathlib.Path(tiny.data.inputs["train"]["labels"])
    raw.write_bytes(idx_files.idx_bytes(idx_files.labels(ROWS)))
    made, _ = _run(tiny, root)
    assert made.splits["train"].records > 0


def test_a_bug_keeps_its_traceback(tiny, root, monkeypatch):
    monkeypatch.setattr(IdxSource, "read", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _run(tiny, root)
    _assert_nothing_is_left(_records(root, tiny))


def test_what_is_up_to_date_is_made_again_if_forced(tiny, root):
    made, _ = _run(tiny, root)
    first = _folder(root, tiny)
    job.run(tiny, str(root))
    assert _folder(root, tiny) == first
    assert job.run(tiny, str(root), force=True) == made
    assert _folder(root, tiny).name == f"{first.name}-2" and _files(first)
    job.run(tiny, str(root))
    assert _folder(root, tiny).name == f"{first.name}-2", "the newest of equal builds"


@pytest.mark.parametrize("place", ["a_file", "a_file/below", "/proc/nothing", "/dev/null/x"])
def test_storage_that_cannot_be_written(tiny, tmp_path, place):
    (tmp_path / "a_file").touch()
    with pytest.raises(errors.UsageError, match=r"cannot .*Choose a place you can write") as info:
        _run(tiny, tmp_path / place)
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
        _run(job_config, small_disk, num_workers=workers)
    assert info.value.exit_code == 75
    _assert_nothing_is_left(_records(small_disk, job_config))


def test_nothing_is_connected_to(tiny, root, monkeypatch):
    """FnApiRunner is pinned: Beam's default would download a runner
    (docs/tensorflow-pitfalls.md#directrunner-downloads-a-program)."""

    def refuse(_, address):
        raise AssertionError(f"connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    made, _ = _run(tiny, root)
    assert made.splits["test"].records == 20
    assert beam_options.runner_name(beam_options.build([], 1)) == "FnApiRunner"


def test_a_flag_beam_does_not_have(tiny, root):
    with pytest.raises(errors.UsageError, match="Beam has no --nonsense"):
        _run(tiny, root, pipeline_options=["--nonsense=1"])
    _assert_nothing_is_left(_records(root, tiny))


def test_more_shards_than_full_blocks_draw_a_warning(tiny, root):
    few = tiny.data.model_copy(update={"shards": {"train": 30, "test": 2}, "block_records": 10})
    made, said = _run(tiny.model_copy(update={"data": few}), root)
    assert len(made.splits["train"].shards) == 30
    assert said.count("shards for") == 1
    records = made.splits["train"].records
    assert f"warning: train has 30 shards for {records} records" in said
    assert f"Set data.shards.train to {records // 10} or less" in said
    enough = few.model_copy(update={"shards": {"train": records // 10, "test": 2}})
    assert "shards for" not in _run(tiny.model_copy(update={"data": enough}), root)[1]
