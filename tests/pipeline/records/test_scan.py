"""Every kind of damage has its own words, and is found where it is."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records import manifest, scan, tfrecord
from tests import record_sets

BLOCK = 4
# Two shards of train, ten and six records, and an empty one; one of test. No two payloads agree.
TRAIN = [[b"a%d" % n * (n + 1) for n in range(10)], [b"b%d" % n * 9 for n in range(6)], []]
TEST = [[b"", b"t"]]


def _made(folder: Path) -> manifest.Manifest:
    return record_sets.write(folder, {"train": TRAIN, "test": TEST}, block_records=BLOCK)


@pytest.fixture
def made(tmp_path):
    return _made(tmp_path)


def _file(folder: Path, name: str = "train-0") -> Path:
    return folder / "build" / f"{name}.tfrecord"


def _start(record: int) -> int:
    return sum(len(tfrecord.frame(payload)) for payload in TRAIN[0][:record])


def _walked(folder: Path, **more) -> dict[str, scan.Walked]:
    found = scan.walk(str(folder), manifest.read(str(folder)), **more)
    return {Path(one.path).stem: one for one in found}


def _told(folder: Path, name: str = "train-0") -> list[str]:
    return [str(damage) for damage in _walked(folder)[name].damages]


def test_intact(tmp_path, made):
    read = []
    walked = _walked(tmp_path, progress=read.append)
    assert list(walked) == ["train-0", "train-1", "train-2", "test-0"]
    assert all(one.intact and not one.bad for one in walked.values())
    assert sum(read) == sum(s.bytes for split in made.splits.values() for s in split.shards)


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("record", "byte", "what"),
    [
        (5, 3, "the CRC of its length is wrong"),
        (5, tfrecord.HEADER_BYTES, "the CRC of its payload is wrong"),
        (0, 8, "the CRC of its length is wrong"),
        (9, -1, "the CRC of its payload is wrong"),
    ],
)
def test_a_flipped_bit_is_found_at_its_record(tmp_path, made, record, byte, what):
    at = _start(record + 1) - 1 if byte < 0 else _start(record) + byte
    _flip(_file(tmp_path), at)
    one = _walked(tmp_path)["train-0"]
    (damage,) = one.damages
    assert str(damage).startswith(
        f"block {record // BLOCK}, byte {_start(record)}, record {record}: {what}"
    )
    assert one.bad == {record // BLOCK}
    assert one.count_lost(BLOCK) == (2 if record == 9 else 4)


def test_damage_hides_nothing_behind_it(tmp_path, made):
    for record in (1, 2, 9):
        _flip(_file(tmp_path), _start(record))
    _flip(_file(tmp_path, "test-0"), 0)
    walked = _walked(tmp_path)
    assert [(d.block, d.record) for d in walked["train-0"].damages] == [(0, 1), (2, 9)]
    assert walked["train-1"].intact
    assert walked["test-0"].bad == {0}


@pytest.mark.parametrize(
    ("length", "blocks", "record", "what"),
    [
        (_start(6) + 5, {1, 2}, 6, "truncated in its header"),
        (_start(7) - 2, {1, 2}, 6, "truncated, 14 bytes were promised"),
        (_start(6), {1, 2}, 6, "the file ends before it"),
        (_start(8), {2}, 8, "the file ends before it"),
        (0, {0, 1, 2}, 0, "the file ends before it"),
    ],
)
def test_cut(tmp_path, made, length, blocks, record, what):
    path = _file(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    first, second, *_ = _told(tmp_path)
    assert first == f"cut: {length} bytes, the manifest says {made.splits['train'].shards[0].bytes}"
    assert second == f"block {min(blocks)}, byte {_start(record)}, record {record}: {what}"
    assert _walked(tmp_path)["train-0"].bad == blocks


def test_more_than_was_written_does_not_spoil_what_was(tmp_path, made):
    path = _file(tmp_path)
    path.write_bytes(path.read_bytes() + tfrecord.frame(b"one more"))
    assert _told(tmp_path) == ["24 bytes follow the last of its records"]
    assert not _walked(tmp_path)["train-0"].bad


def test_a_file_next_to_itself(tmp_path, made):
    path = _file(tmp_path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() * 2)
    assert _told(tmp_path) == [f"{size} bytes follow the last of its records"]


def test_exchanged(tmp_path, made):
    first, second = _file(tmp_path), _file(tmp_path, "train-1")
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert _told(tmp_path) == [f"holds what belongs to {str(second)!r}: they were exchanged"]
    assert _told(tmp_path, "train-1") == [
        f"holds what belongs to {str(first)!r}: they were exchanged"
    ]
    assert _walked(tmp_path)["train-0"].bad == {0, 1, 2}


def test_a_copy_of_another(tmp_path, made):
    first, second = _file(tmp_path), _file(tmp_path, "train-1")
    first.write_bytes(second.read_bytes())
    assert _told(tmp_path) == [f"is a copy of {str(second)!r}; its own records are gone"]
    assert _told(tmp_path, "train-1") == []


@pytest.mark.parametrize(
    ("compress", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz")]
)
def test_compressed_by_surprise(tmp_path, made, compress, name):
    path = _file(tmp_path)
    path.write_bytes(compress(path.read_bytes()))
    (told,) = _told(tmp_path)
    assert told == f"compressed with {name}; records are not, and cannot be read so"
    assert _walked(tmp_path)["train-0"].bad == {0, 1, 2}


def test_a_record_whose_length_looks_like_compression_is_none(tmp_path):
    """35,615 is 0x8b1f: such a shard begins as gzip does."""
    record_sets.write(tmp_path, {"train": [[bytes(0x8B1F), b"x"]]}, block_records=1)
    assert _file(tmp_path).read_bytes()[:2] == b"\x1f\x8b"
    assert _walked(tmp_path)["train-0"].intact
    _flip(_file(tmp_path), 100)
    assert "the CRC of its payload is wrong" in _told(tmp_path)[0]


def test_missing_and_a_folder_in_its_place(tmp_path, made):
    _file(tmp_path).unlink()
    _file(tmp_path, "train-1").unlink()
    _file(tmp_path, "train-1").mkdir()
    assert _told(tmp_path) == ["missing"]
    assert _told(tmp_path, "train-1") == ["missing"]


def test_other_records_with_right_checksums(tmp_path, made):
    """Nothing but the checksum of the whole file can tell; which block it was is unknown."""
    frames = [tfrecord.frame(payload) for payload in TRAIN[0]]
    frames[5] = tfrecord.frame(bytes(len(TRAIN[0][5])))
    _file(tmp_path).write_bytes(b"".join(frames))
    (told,) = _told(tmp_path)
    assert told.startswith("altered: CRC-32C ")
    assert told.endswith("and no record tells where")
    assert _walked(tmp_path)["train-0"].bad == {0, 1, 2}


def test_records_taken_out_of_a_block_or_put_into_it(tmp_path, made):
    frames = [tfrecord.frame(payload) for payload in TRAIN[1]]
    # Six records of 18 + 16 bytes: the first block of four becomes three, and one with a longer.
    _file(tmp_path, "train-1").write_bytes(b"".join([*frames[:3], tfrecord.frame(bytes(2))]))
    assert "cut: " in _told(tmp_path, "train-1")[0]
    short = [tfrecord.frame(bytes(1)) for _ in range(8)]
    _file(tmp_path, "train-1").write_bytes(b"".join(short))
    assert "block 0, byte 68, record 4: more records than the 4 of the manifest" in (
        _told(tmp_path, "train-1")
    )


def test_what_a_check_finds_is_placed_too(tmp_path, made):
    def check(payloads):
        found = [n for n, payload in enumerate(payloads) if payload == TRAIN[0][6]]
        return (found[0], "not what it should be") if found else None

    one = _walked(tmp_path, check=check)["train-0"]
    assert [str(damage) for damage in one.damages] == [
        f"block 1, byte {_start(6)}, record 6: not what it should be"
    ]
    assert one.bad == {1}


def test_the_report_names_the_first_of_each_shard(tmp_path, made):
    for name in ("train-0", "test-0"):
        _file(tmp_path, name).write_bytes(b"junk")
    lines = list(scan.report(list(_walked(tmp_path).values()), first=2))
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == [
        *["train-0.tfrecord"] * 3,
        *["test-0.tfrecord"] * 2,
    ]
    assert lines[2].endswith("and 2 more")


@pytest.fixture(scope="module")
def altered(tmp_path_factory):
    """Records, one file of which each example writes again, and that file's shard and contents."""
    folder = tmp_path_factory.mktemp("altered")
    shard = _made(folder).splits["train"].shards[0]
    return folder, shard, _file(folder).read_bytes()


@settings(max_examples=150)
@given(content=st.binary(max_size=400))
def test_random_bytes_are_never_taken_for_records(altered, content):
    folder, _, _ = altered
    _file(folder).write_bytes(content)
    one = _walked(folder)["train-0"]
    assert not one.intact
    assert one.bad == {0, 1, 2}


EDIT = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "remove", "double"]),
    st.integers(0, 10**6),
    st.integers(1, 40),
)


def _edited(content: bytes, kind: str, at: int, size: int) -> bytes:
    at %= len(content) + 1
    if kind == "flip" and at < len(content):
        return content[:at] + bytes([content[at] ^ (1 << size % 8)]) + content[at + 1 :]
    if kind == "cut":
        return content[:at]
    if kind == "insert":
        return content[:at] + bytes(size) + content[at:]
    if kind == "remove":
        return content[:at] + content[at + size :]
    return content[:at] + content[max(0, at - size) :]


@settings(max_examples=300)
@given(edits=st.lists(EDIT, min_size=1, max_size=3))
def test_a_block_that_is_not_bad_has_the_records_it_had(altered, edits):
    """Whatever is done to a file: never a traceback, and what passes is what was written."""
    folder, shard, before = altered
    content, path = before, _file(folder)
    for edit in edits:
        content = _edited(content, *edit)
    path.write_bytes(content)
    one = _walked(folder)["train-0"]
    assert one.intact == (content == before)
    for block in set(range(len(shard.blocks))) - one.bad:
        count = shard.records_in(block, BLOCK)
        found = list(tfrecord.read(str(path), shard.blocks[block], count))
        assert found == TRAIN[0][block * BLOCK : block * BLOCK + count]
