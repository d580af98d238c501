"""Equal work has equal names, other work has others."""

from __future__ import annotations

import dataclasses
import hashlib
import threading

import pytest

from pipeline import config, errors
from pipeline.source_table import SOURCES
from preprocessing.build import fingerprint
from preprocessing.sources import base
from tests.preprocessing import idx_files, tables

RUN = threading.Event()
_INPUTS = {"train": {"images": "/a/i", "labels": "/a/l"}}


def _name(inputs=None, files=(), **data):
    return fingerprint.compute_fingerprint(
        idx_files.make_config(inputs or _INPUTS, **data).data, files
    )


def test_sources_hold_no_folder(tmp_path):
    (tmp_path / "raw").write_bytes(b"abc")
    (found,) = fingerprint.hash_sources(
        [base.RawFile("train/images/raw", str(tmp_path / "raw"))], RUN
    )
    assert found.name == "train/images/raw" and found.bytes == 3
    assert found.sha256 == hashlib.sha256(b"abc").hexdigest()


def test_many_files_are_named_by_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "MAX_LISTED", 3)
    names = ["cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    files = [base.RawFile(f"train/x/{name}", str(tmp_path / name)) for name in names]
    cats, dogs = fingerprint.hash_sources(files, RUN)
    assert (cats.name, cats.bytes, dogs.name) == ("train/x/cat/*", 18, "train/x/dog/*")
    assert [s.name for s in fingerprint.hash_sources(files[:3], RUN)] == [f.name for f in files[:3]]
    (tmp_path / "dog" / "2.png").write_bytes(b"dog/3.png")
    again = fingerprint.hash_sources(files, RUN)
    assert again[0] == cats and again[1].sha256 != dogs.sha256


def test_where_the_files_lie_does_not_matter():
    assert _name({"train": {"images": "/b/i", "labels": "/b/l"}}) == _name()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"block_records": 17},
        {"shards": {"train": 4}},
        {"split": {"eval": 0.2}},
        {"split": {"salt": "x"}},
        {"columns": {"image": {"type": "uint8", "shape": [28, 28]}, "label": {"type": "int64"}}},
    ],
)
def test_everything_that_decides_the_bytes_does(change):
    assert _name(**change) != _name()


def test_contents_of_files_matter(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(b"abc")
    before = fingerprint.hash_sources([base.RawFile("raw", str(path))], RUN)
    path.write_bytes(b"abd")
    after = fingerprint.hash_sources([base.RawFile("raw", str(path))], RUN)
    assert _name(files=before) != _name(files=after) != _name()


def test_a_new_format_makes_new_records(monkeypatch):
    before = _name()
    monkeypatch.setattr(fingerprint, "FORMAT", fingerprint.FORMAT + 1)
    assert _name() != before


@pytest.mark.parametrize("source", [name for name, kind in SOURCES.items() if kind.text])
def test_records_of_texts_that_are_read_otherwise_are_made_again(tmp_path, source, monkeypatch):
    """+5 and NaN are read since then; of other sources nothing has changed."""
    data = tables.make_config(tmp_path / "x", source=source).data
    other = tables.make_config(tmp_path / "x", source="parquet").data
    before = fingerprint.compute_fingerprint(data, ()), fingerprint.compute_fingerprint(other, ())
    monkeypatch.setitem(SOURCES, source, dataclasses.replace(SOURCES[source], text=False))
    assert fingerprint.compute_fingerprint(data, ()) != before[0]
    assert fingerprint.compute_fingerprint(other, ()) == before[1]


def test_records_with_floats_are_made_again(tmp_path, monkeypatch):
    """NaN and infinite values are refused since then."""
    monkeypatch.setattr(config, "digest", lambda tree: tree["format"])
    kinds = [{**tables.COLUMNS, "size": {"type": kind}} for kind in ("int64", "float32")]
    whole, floats = (tables.make_config(tmp_path / "x", columns).data for columns in kinds)
    assert (
        fingerprint.compute_fingerprint(floats, ())
        == fingerprint.compute_fingerprint(whole, ()) + 1
    )


@pytest.mark.parametrize(("source", "more"), [("parquet", 1), ("csv", 0), ("tfrecord", 0)])
def test_records_of_numbers_as_texts_are_made_again(tmp_path, source, more, monkeypatch):
    """An infinite number was the text inf before."""
    monkeypatch.setattr(config, "digest", lambda tree: tree["format"])
    kinds = [{**tables.COLUMNS, "name": {"type": kind}} for kind in ("int64", "string")]
    numbers, texts = (tables.make_config(tmp_path / "x", c, source=source).data for c in kinds)
    assert (
        fingerprint.compute_fingerprint(texts, ())
        == fingerprint.compute_fingerprint(numbers, ()) + more
    )


def test_records_of_json_lines_are_made_again(tmp_path, monkeypatch):
    """Columns that folders are called like are read from the files since then, and rows with a
    number beyond double in a member that is no column."""
    monkeypatch.setattr(config, "digest", lambda tree: tree["format"])
    csv, lines = (tables.make_config(tmp_path / "x", source=s).data for s in ("csv", "jsonl"))
    before = fingerprint.compute_fingerprint(csv, ())
    assert fingerprint.compute_fingerprint(lines, ()) == before + 2


def test_records_of_a_sample_are_made_again(tmp_path, monkeypatch):
    """The manifest has labels in the order of all rows since then."""
    monkeypatch.setattr(config, "digest", lambda tree: tree["format"])
    rule = {"column": "label", "value": 0, "keep": 0.1}
    given = ({"key": ["id"]}, {"key": ["id"], "sample": rule})
    whole, sampled = (tables.make_config(tmp_path / "x", **one).data for one in given)
    assert (
        fingerprint.compute_fingerprint(sampled, ())
        == fingerprint.compute_fingerprint(whole, ()) + 1
    )


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(errors.DataError, match="absent': no such file"):
        fingerprint.hash_sources([base.RawFile("x", str(tmp_path / "absent"))], RUN)
    with pytest.raises(errors.DataError, match="cannot be read: Is a directory"):
        fingerprint.hash_sources([base.RawFile("x", str(tmp_path))], RUN)


def test_hashing_can_be_stopped(tmp_path):
    (tmp_path / "raw").write_bytes(bytes(100))
    stop = threading.Event()
    stop.set()
    (found,) = fingerprint.hash_sources([base.RawFile("raw", str(tmp_path / "raw"))], stop)
    assert found.bytes == 0


def test_builds_are_named_by_config_and_files(tmp_path):
    (tmp_path / "raw").write_bytes(b"abc")
    files = [base.RawFile("raw", str(tmp_path / "raw"))]
    data, other = (idx_files.make_config(_INPUTS, seed=seed).data for seed in (0, 1))
    before = fingerprint.compute_base(data, files)
    assert len(before) == 12 and before != fingerprint.compute_base(other, files)
    (tmp_path / "raw").write_bytes(b"abcd")
    assert before != fingerprint.compute_base(data, files)
