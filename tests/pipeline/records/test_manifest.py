"""The manifest: published whole, and a set of records that is not what it says is refused."""

from __future__ import annotations

import errno
import gc
import json
import os

import google_crc32c
import pytest

from pipeline import config, errors, storage
from pipeline.records import manifest, scan, shard_check, verified
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import patience
from tests.pipeline.read_faults import fail_reads

CONTENT = {"b/train-0": b"abc", "b/train-1": b"", "b/test-0": b"defg"}


def _shard(path: str) -> manifest.Shard:
    content = CONTENT[path]
    return manifest.Shard(
        path=path,
        records=len(content),
        bytes=len(content),
        crc32c=f"{google_crc32c.value(content):08x}",
        blocks=(0,) if content else (),
    )


def _split(*paths: str) -> manifest.Split:
    shards = tuple(map(_shard, paths))
    return manifest.Split(records=sum(shard.records for shard in shards), shards=shards)


@pytest.fixture
def made() -> manifest.Manifest:
    return manifest.Manifest(
        fingerprint="f" * 64,
        columns={"image": config.Column(type="uint8", shape=(2, 2)), "label": _label()},
        label="label",
        block_records=16,
        sources=(manifest.SourceFile(name="train/images/x", bytes=3, sha256="0" * 64),),
        splits={"train": _split("b/train-0", "b/train-1"), "eval": _split(), "test": _split()},
    )


def _label(**values) -> config.Column:
    return config.Column(type="int64", **values)


@pytest.fixture
def folder(tmp_path, made):
    (tmp_path / "b").mkdir()
    for path, content in CONTENT.items():
        (tmp_path / path).write_bytes(content)
    manifest.write(str(tmp_path), made)
    return tmp_path


def test_what_is_written_is_read(folder, made):
    assert manifest.read(str(folder)) == made
    assert manifest.read(str(folder)).sha256 == made.sha256
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["manifest.json"]


def test_the_same_content_is_parsed_once_while_it_is_in_use(folder, made):
    first = manifest.read(str(folder))
    assert manifest.read(str(folder)) is first
    manifest.write(str(folder), made.model_copy(update={"block_records": 17}))
    assert manifest.read(str(folder)).block_records == 17


def test_what_was_read_last_is_not_parsed_again_though_nobody_has_it(folder, made):
    manifest.read(str(folder)).__dict__["mark"] = True
    gc.collect()
    assert "mark" in manifest.read(str(folder)).__dict__
    manifest.write(str(folder), made.model_copy(update={"block_records": 17}))
    assert "mark" not in manifest.read(str(folder)).__dict__
    gc.collect()
    manifest.write(str(folder), made)
    assert "mark" not in manifest.read(str(folder)).__dict__


def test_it_can_be_read_by_people_and_other_programs(folder):
    tree = json.loads((folder / "manifest.json").read_text())
    assert tree["version"] == 1
    assert tree["splits"]["train"]["shards"][0] == {
        "path": "b/train-0",
        "records": 3,
        "bytes": 3,
        "crc32c": "364b3fb7",
        "blocks": [0],
    }


def test_the_hash_names_the_set(made):
    known = made.sha256
    other = made.model_copy(update={"splits": {"train": _split("b/train-0")}})
    assert other.sha256 != known
    assert made == type(made).model_validate_json(made.to_json())  # with and without its hash


def test_none(tmp_path):
    with pytest.raises(errors.DataError, match=r"no manifest, so the records are absent or unfin"):
        manifest.read(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a manifest of ours"),
        ("{}", r"not a manifest of ours \(fingerprint: Field required\)"),
        ("[1]", "not a manifest of ours"),
    ],
)
def test_not_a_manifest(tmp_path, text, message):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(errors.DataError, match=rf"{message}.*Run make preprocess"):
        manifest.read(str(tmp_path))


def test_another_version(folder, made):
    manifest.write(str(folder), made.model_copy(update={"version": 99}))
    with pytest.raises(errors.DataError, match="version 99, this code reads 1"):
        manifest.read(str(folder))


def test_a_split_with_records(made):
    assert made.split("train").records == 3
    for name in ("eval", "nonsense"):
        words = (
            f"split '{name}' has no records; those with records: train. Change data.split or "
            "data.inputs so that rows go there"
        )
        with pytest.raises(errors.DataError, match=f"^{words}$"):
            made.split(name)


def test_an_intact_set_passes(folder, made):
    read: list[int] = []
    shard_check.verify(str(folder), made, contents=False, progress=read.append)
    assert read == []
    shard_check.verify(str(folder), made, contents=True, progress=read.append)
    assert sum(read) == 3


def test_a_missing_shard(folder, made):
    (folder / "b/train-1").unlink()
    with pytest.raises(
        errors.DataError, match=r"shard '.*/b/train-1': is missing\. Restore it; or"
    ):
        shard_check.verify(str(folder), made, contents=False)


def test_every_shard_that_is_damaged_is_reported(folder, made):
    (folder / "b/train-0").write_bytes(b"abd")
    (folder / "b/train-1").unlink()
    assert len(list(shard_check.damages(str(folder), made, contents=True))) == 2
    (what,) = shard_check.damages(str(folder), made, contents=False)
    assert what.endswith("b/train-1': is missing")


def test_what_can_be_done_about_damage_is_reported_with_every_error(folder, made):
    (folder / "b/train-0").write_bytes(b"abd")
    with pytest.raises(errors.DataError) as caught:
        shard_check.verify(str(folder), made, contents=True)
    assert str(caught.value).endswith(
        ": it was altered. Restore it; or make the records again: make preprocess FORCE=1; or "
        "train without what is damaged: make train SET=data.on_corrupt=skip_block, or for good "
        f"make verify RECORDS={folder} REPAIR=1"
    )


@pytest.mark.parametrize("content", [b"ab", b"abcd"])
def test_a_shard_of_another_length(folder, made, content):
    (folder / "b/train-0").write_bytes(content)
    with pytest.raises(
        errors.DataError, match=rf"train-0': {len(content)} bytes, the manifest says 3"
    ):
        shard_check.verify(str(folder), made, contents=False)


def test_an_altered_shard(folder, made):
    (folder / "b/train-0").write_bytes(b"abd")
    shard_check.verify(str(folder), made, contents=False)
    with pytest.raises(errors.DataError, match=r"CRC-32C .*, the manifest says 364b3fb7: it was"):
        shard_check.verify(str(folder), made, contents=True)


def test_a_known_shard_is_read_again_only_if_it_was_touched(folder, made, tmp_path, monkeypatch):
    """Whatever its length and its time say."""
    run = RunFolder(str(tmp_path / "run"))
    opened = []
    open_file = storage.open_file
    monkeypatch.setattr(storage, "open_file", lambda path: opened.append(path) or open_file(path))

    def read():
        counts: list[int] = []
        opened.clear()
        known = verified.Verified(run, "all")
        shard_check.verify(str(folder), made, contents=True, progress=counts.append, known=known)
        known.save()
        assert sum(counts) == 3
        names = [path.rpartition("/")[2] for path in opened]
        return [name for name in names if not name.endswith(".json")]

    first = read()
    assert first == ["train-0", "train-1"] and read() == []
    shard = folder / "b" / "train-0"
    content, times = shard.read_bytes(), os.stat(shard)
    shard.write_bytes(content)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read() == first[:1]
    shard.write_bytes(content[::-1])
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(errors.DataError, match="it was altered"):
        read()


def test_a_shard_that_cannot_be_read_now_is_not_damaged(folder, made, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    with (
        fail_reads(errno.EIO)(folder),
        pytest.raises(errors.RetryableError, match="cannot be read"),
    ):
        shard_check.verify(str(folder), made, contents=True)
    with (
        fail_reads(errno.EIO)(folder),
        pytest.raises(errors.RetryableError, match="cannot be read"),
    ):
        scan.walk(str(folder), made)


def test_on_gs_the_checksums_that_the_service_keeps_are_compared_and_nothing_is_read(cloud, made):
    for shard in made.splits["train"].shards:
        cloud.put(shard.path, b"abc"[: shard.bytes])
    first = len(cloud.api.seen)
    shard_check.verify(cloud.root, made, contents=True)
    asked = [seen.path for seen in cloud.api.seen[first:] if "/b/bucket/o" in seen.path]
    assert len(asked) == 1 and "prefix=" in asked[0], asked
    cloud.put("b/train-0", b"abd")
    with pytest.raises(errors.DataError, match=r"b/train-0': CRC-32C .*: it was altered"):
        shard_check.verify(cloud.root, made, contents=True)


@pytest.mark.parametrize(
    ("columns", "label", "differs"),
    [
        ({"label": _label(max=9)}, "label", "label"),
        ({"image": config.Column(type="uint8", shape=(3, 3))}, "label", "image"),
        ({"other": _label()}, "label", "other"),
        ({}, "image", "label 'label' is now 'image'"),
    ],
)
def test_records_made_for_other_columns(made, columns, label, differs):
    data = config.Data(inputs={"train": {}}, columns={**made.columns, **columns}, label=label)
    with pytest.raises(errors.DataError, match=rf"made with schema .*\(differs in {differs}\)"):
        manifest.check_schema(made, data, "/records")


def test_records_made_for_these_columns(made):
    data = config.Data(inputs={"train": {}}, columns=made.columns, label="label")
    manifest.check_schema(made, data, "/records")


def test_records_of_a_column_with_nan_for_missing_values(tmp_path, made):
    """Though it is equal to nothing, not even to itself."""
    columns = {"label": config.Column(type="float32", missing="allow", default=float("nan"))}
    manifest.write(str(tmp_path), made.model_copy(update={"columns": columns}))
    data = config.Data(inputs={"train": {}}, columns=columns, label="label")
    manifest.check_schema(manifest.read(str(tmp_path)), data, "/records")


def test_the_text_nan_stays_a_text(tmp_path, made):
    columns = {"label": config.Column(type="string", missing="allow", default="NaN")}
    manifest.write(str(tmp_path), made.model_copy(update={"columns": columns}))
    assert manifest.read(str(tmp_path)).columns == columns


def test_a_column_and_a_shard_is_one_line(tmp_path, made):
    statistics = {"train": manifest.Statistics(columns={"x": _numbers(), "y": _numbers()})}
    made = made.model_copy(update={"statistics": statistics})
    text = made.to_json()
    assert '\n    "x": {"count": 3, "missing": 0, "not_finite": 0, "mean": 1.5, ' in text
    assert max(line.count('"path"') for line in text.splitlines()) == 1
    manifest.write(str(tmp_path), made)
    assert manifest.read(str(tmp_path)) == made


def _numbers() -> manifest.ColumnStatistics:
    return manifest.ColumnStatistics(
        count=3, mean=1.5, variance=0.25, min=1, max=2.5, vocabulary=((1, 2), ("a", 1))
    )


@pytest.mark.parametrize(
    ("keep", "share"), [(0.25, "25"), (0.07, "7"), (1e-9, "0.0000001"), (1 / 3, "33.3333")]
)
def test_a_sample_is_described_by_its_rule(keep, share):
    """Perhaps none of the rows was kept."""
    found = manifest.Sampled(column="label", value=0, keep=keep, dropped=1234)
    line = f"data.sample keeps {share} % of the rows of train with 0 in label; 1,234 were left out."
    assert found.describe(sensitive=False) == line
