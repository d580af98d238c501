"""Files of anybody's as shards: where blocks begin, and what is wrong with a file."""

from __future__ import annotations

import bz2
import gzip
import zlib

import google_crc32c
import pytest

from pipeline import errors
from pipeline.records import in_place, manifest, scan, shard_check, tfrecord

BLOCK = 4


def payload(number: int) -> bytes:
    return b"%d" % number * (number * 7 % 31 + 1)


def content(records: int) -> bytes:
    return b"".join(tfrecord.frame(payload(n)) for n in range(records))


@pytest.mark.parametrize("records", [0, 1, 3, 4, 5, 8, 1001])
@pytest.mark.parametrize("read_bytes", [1, 13, 100, 8 << 20])
def test_blocks_begin_where_a_reader_finds_their_records(tmp_path, records, read_bytes):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content(records))
    seen = []
    shard = in_place.shard_of(str(path), BLOCK, seen.append, read_bytes=read_bytes)
    assert (shard.records, shard.bytes) == (records, path.stat().st_size) == (records, sum(seen))
    assert shard.crc32c == google_crc32c.Checksum(content(records)).hexdigest().decode()
    found = [list(tfrecord.read(str(path), offset, BLOCK)) for offset in shard.blocks]
    assert [one for block in found for one in block] == [payload(n) for n in range(records)]
    assert [len(block) for block in found[:-1]] == [BLOCK] * (len(found) - 1)
    assert shard.is_in_place


def test_a_manifest_of_such_shards_is_walked_as_any(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content(10))
    shard = in_place.shard_of(str(path), BLOCK)
    contents = manifest.Manifest(
        fingerprint="",
        columns={},
        label="y",
        block_records=BLOCK,
        sources=(),
        splits={"train": manifest.Split(records=10, shards=(shard,))},
    )
    folder = tmp_path / "build"
    folder.mkdir()
    manifest.write(str(folder), contents)
    assert manifest.read(str(folder)) == contents
    shard_check.verify(str(folder), contents, contents=True)
    path.write_bytes(content(9) + tfrecord.frame(b"x" * len(payload(9))))
    [walked] = scan.walk(str(folder), contents)
    assert not walked.intact
    with pytest.raises(errors.DataError, match=f"shard '{path}': CRC-32C .* it was altered"):
        shard_check.verify(str(folder), contents, contents=True)
    path.unlink()
    with pytest.raises(errors.DataError, match=f"shard '{path}': is missing"):
        shard_check.verify(str(folder), contents, contents=False)


@pytest.mark.parametrize("read_bytes", [64, 8 << 20])
@pytest.mark.parametrize("record", [0, 1, 50, 99])
def test_any_flipped_byte_is_found_in_its_record(tmp_path, record, read_bytes):
    frames = [tfrecord.frame(payload(n)) for n in range(100)]
    start = sum(map(len, frames[:record]))
    path = tmp_path / "a.tfrecord"
    for at in range(len(frames[record])):
        damaged = bytearray(b"".join(frames))
        damaged[start + at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(errors.DataError) as caught:
            in_place.shard_of(str(path), BLOCK, read_bytes=read_bytes)
        assert str(caught.value).startswith(
            f"{str(path)!r}: record {record + 1}, at byte {start:,}:"
        )


@pytest.mark.parametrize("read_bytes", [7, 8 << 20])
def test_a_file_that_ends_within_a_record_is_refused(tmp_path, read_bytes):
    whole, last = content(9), len(tfrecord.frame(payload(8)))
    path = tmp_path / "a.tfrecord"
    for cut in range(1, last):
        path.write_bytes(whole[:-cut])
        problem = f"record 9, at byte {len(whole) - last}: truncated.*Restore the file, or take it"
        with pytest.raises(errors.DataError, match=problem):
            in_place.shard_of(str(path), BLOCK, read_bytes=read_bytes)


@pytest.mark.parametrize(
    ("pack", "kind"), [(gzip.compress, "gzip"), (zlib.compress, "zlib"), (bz2.compress, "bzip2")]
)
def test_a_compressed_file_is_refused_with_the_reason_and_a_way_out(tmp_path, pack, kind):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(pack(content(9)))
    problem = f"compressed with {kind}, which can only be read from its start; .*unpack it, or"
    with pytest.raises(errors.DataError, match=problem):
        in_place.shard_of(str(path), BLOCK)


def _of(**crcs: str) -> manifest.Manifest:
    shards = tuple(
        manifest.Shard(path=f"/{name}", records=1, bytes=20, crc32c=crc, blocks=(0,))
        for name, crc in crcs.items()
    )
    return manifest.Manifest(
        fingerprint="",
        columns={},
        label="y",
        block_records=BLOCK,
        sources=(),
        splits={"train": manifest.Split(records=len(shards), shards=shards)},
    )


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"a": "0", "b": "1"}, ""),
        ({"a": "0", "b": "2"}, "'/b' was written to"),
        ({"a": "0"}, "'/b' is gone"),
        ({"a": "0", "b": "1", "c": "2"}, "'/c' is new"),
    ],
)
def test_the_file_that_is_not_what_it_was_is_named(now, told):
    assert in_place.describe_change(_of(a="0", b="1"), _of(**now)) == told


def test_where_there_are_no_statistics_the_error_says_how_to_get_them():
    with pytest.raises(errors.DataError, match=r"SET=data\.in_place=values"):
        in_place.check_statistics("build", _of(a="0"))
