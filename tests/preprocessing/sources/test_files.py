"""Files are found in a fixed order and read alike, however they are packed."""

from __future__ import annotations

import gzip
import io
import os
import zipfile

import pytest

from pipeline import errors
from preprocessing.sources import files
from tests.preprocessing import tables


def _read(path, encoding="utf-8") -> bytes:
    with files.open_unpacked(str(path), encoding) as stream:
        return stream.read()


def _zip(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _encrypted(packed: bytes) -> bytes:
    """Sets the bit that says so, in both headers of the only member."""
    changed = bytearray(packed)
    changed[packed.index(b"PK\x03\x04") + 6] |= 1
    changed[packed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("content", "can_be_cut"),
    [
        (b"a\n", True),
        (b"\xef\xbb\xbfa\n", True),
        (gzip.compress(b"a\n", mtime=0), False),
        (gzip.compress(b"\xef\xbb\xbfa\n", mtime=0), False),
        (_zip(x=b"a\n"), False),
    ],
    ids=["plain", "bom", "gz", "gz+bom", "zip"],
)
def test_packed_or_not(tmp_path, content, can_be_cut):
    (tmp_path / "x").write_bytes(content)
    assert _read(tmp_path / "x") == b"a\n"
    assert files.can_be_cut(str(tmp_path / "x")) is can_be_cut


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda text: _zip(x=text)])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_offsets_are_those_of_the_text_below_the_mark(tmp_path, mark, pack, encoding):
    """A codec that writes a mark itself adds one."""
    (tmp_path / "x").write_bytes(pack((mark + "abc").encode(encoding.removesuffix("-sig"))))
    for offset in range(4):
        with files.open_unpacked(str(tmp_path / "x"), encoding, offset) as stream:
            assert stream.read() == b"abc"[offset:]


def test_a_zip_as_macos_makes_it(tmp_path):
    (tmp_path / "x").write_bytes(_zip(**{"a.csv": b"a\n", "__MACOSX/._a.csv": b"\0"}))
    assert _read(tmp_path / "x") == b"a\n"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252"])
def test_encodings(tmp_path, encoding):
    text = "grün,5\n" * 1000
    (tmp_path / "x").write_bytes(text.encode(encoding))
    assert _read(tmp_path / "x", encoding) == text.encode()
    assert not files.can_be_cut(str(tmp_path / "x"), encoding)


def test_patterns_give_names_without_the_folders_of_this_host(tmp_path):
    for name in ("b.csv", "a.csv", "deep/c.csv", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    data = tables.make_config(tmp_path / "**/*.csv").data
    assert [file.name for file in files.find(data, "train")] == [
        "train/files/a.csv",
        "train/files/b.csv",
        "train/files/deep/c.csv",
    ]
    (only,) = files.find(tables.make_config(tmp_path / "d.txt").data, "train")
    assert only.name == "train/files/d.txt" and only.path == str(tmp_path / "d.txt")


def test_what_is_there_under_that_very_name_is_no_pattern(tmp_path):
    folder = tmp_path / "[old] sales?"
    folder.mkdir()
    for name in ("a[1].csv", "b.csv"):
        (folder / name).touch()
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "c.csv").touch()
    found = files.find(tables.make_config(folder / "a[1].csv").data, "train")
    assert [(f.name, f.path) for f in found] == [("train/files/a[1].csv", str(folder / "a[1].csv"))]
    found = files.find(tables.make_config(folder / "*.csv").data, "train")
    assert [file.name for file in found] == ["train/files/a[1].csv", "train/files/b.csv"]
    (found,) = files.find(tables.make_config(tmp_path / "[old]" / "*.csv").data, "train")
    assert found.name == "train/files/o/c.csv"


def test_a_pattern_without_files(tmp_path):
    with pytest.raises(errors.DataError, match=r"\*\.csv': no file fits this pattern"):
        files.find(tables.make_config(tmp_path / "*.csv").data, "train")


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (gzip.compress(b"a" * 999, mtime=0)[:-9], "utf-8", "truncated: the gz stream ends early"),
        (gzip.compress(b"a" * 999, mtime=0)[:-5] + b"xxxxx", "utf-8", "corrupt archive: "),
        (b"PK\x03\x04rubbish", "utf-8", "corrupt archive: "),
        (_encrypted(_zip(x=b"a")), "utf-8", "the zip is encrypted; unpack it first"),
        (_zip(x=b"a", y=b"b"), "utf-8", "the zip holds 2 files; it must hold one"),
        (b"abc", "utf-16", "not in the encoding of data.csv: "),
    ],
)
def test_broken_files(tmp_path, content, encoding, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(errors.DataError, match=f"x': {message}"):
        _read(tmp_path / "x", encoding)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(
        errors.DataError, match=r"absent.: no such file\. Check the path; make data"
    ):
        _read(tmp_path / "absent")
    with pytest.raises(errors.DataError, match="cannot be read: Is a directory"):
        _read(tmp_path)
    if os.geteuid():
        (tmp_path / "x").touch(mode=0)
        with pytest.raises(errors.DataError, match="cannot be read: Permission denied"):
            _read(tmp_path / "x")


@pytest.mark.parametrize(
    ("endings", "likely"),
    [
        ([".csv", ".md"], ".csv"),
        ([".md", ".md", ".parquet"], ".parquet"),
        ([".csv", ".jsonl", ".jsonl"], ".jsonl"),
        ([".md", ".txt", ".txt"], ".txt"),
        (["", ".CSV.gz"], ".CSV.gz"),
    ],
)
def test_which_of_several_endings_data_have(endings, likely):
    assert files.choose_ending(endings) == likely
