"""TFRecord files: read as TensorFlow reads them, and every damage named."""

from __future__ import annotations

import google_crc32c
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import tfrecord

PAYLOADS = [b"first", b"", b"third" * 100]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "shard.tfrecord"
    file.write_bytes(b"".join(map(tfrecord.frame, PAYLOADS)))
    return file


def test_the_checksum_is_castagnoli_in_c():
    assert google_crc32c.implementation == "c"
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert tfrecord.compute_masked_crc32c(b"") == tfrecord.MASK_DELTA


def test_the_frame_is_tensorflows(path, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert (tmp_path / "theirs").read_bytes() == path.read_bytes()


def test_read_all_some_and_from_the_middle(path):
    assert list(tfrecord.read(str(path))) == PAYLOADS
    assert list(tfrecord.read(str(path), count=2)) == PAYLOADS[:2]
    assert list(tfrecord.read(str(path), count=0)) == []
    second = len(tfrecord.frame(PAYLOADS[0]))
    assert list(tfrecord.read(str(path), second, 1)) == PAYLOADS[1:2]
    assert list(tfrecord.read(str(path), path.stat().st_size)) == []


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (0, r"shard.tfrecord': record at byte 0: the CRC of its length is wrong"),
        (13, r"record at byte 0: the CRC of its payload is wrong"),
        (17, r"record at byte 0: the CRC of its payload is wrong"),
        (22, r"record at byte 21: the CRC of its length is wrong"),
        (-1, r"record at byte 37: the CRC of its payload is wrong"),
    ],
)
def test_a_flipped_byte(path, place, message):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.DataError, match=message):
        list(tfrecord.read(str(path)))


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (5, "record at byte 0: truncated in its header"),
        (15, "record at byte 0: truncated, 5 bytes were promised"),
        (19, "record at byte 0: truncated, 5 bytes were promised"),
        (30, "record at byte 21: truncated in its header"),
    ],
)
def test_truncated(path, length, message):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(errors.DataError, match=message):
        list(tfrecord.read(str(path)))


def test_junk_at_the_end_comes_after_the_good_records(path):
    path.write_bytes(path.read_bytes() + b"junk that is no record")
    reader = tfrecord.read(str(path))
    assert [next(reader) for _ in PAYLOADS] == PAYLOADS
    with pytest.raises(errors.DataError, match="the CRC of its length is wrong"):
        next(reader)
