"""Sums of written files against those of another way to compute them."""

from __future__ import annotations

import google_crc32c
import pyarrow as pa
import pytest

from preprocessing.shards import summed


def test_the_sum_is_that_of_the_file(tmp_path):
    sums: summed.Sums = {}
    batch = pa.record_batch({"a": pa.array(range(1000)), "b": pa.array(["x"] * 1000)})
    with (
        summed.create(str(tmp_path / "a.arrow"), sums) as file,
        pa.ipc.new_file(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)
    content = (tmp_path / "a.arrow").read_bytes()
    assert sums == {"a.arrow": summed.Sum(len(content), f"{google_crc32c.value(content):08x}")}
    with pa.ipc.open_file(str(tmp_path / "a.arrow")) as reader:
        assert reader.get_batch(0) == batch


def test_small_texts(tmp_path):
    sums: summed.Sums = {}
    summed.write_text(str(tmp_path / "t.json"), "größe\n", sums)
    content = (tmp_path / "t.json").read_bytes()
    assert sums["t.json"] == summed.Sum(len(content), f"{google_crc32c.value(content):08x}")
    summed.write_text(str(tmp_path / "u.json"), "", None)
    assert list(sums) == ["t.json"]


def test_a_file_that_could_not_be_written_has_no_sum(tmp_path):
    sums: summed.Sums = {}
    with pytest.raises(ZeroDivisionError), summed.create(str(tmp_path / "a"), sums) as file:
        file.write(b"some")
        raise ZeroDivisionError
    assert sums == {}


@pytest.mark.parametrize("damage", ["none", "a bit", "shorter", "longer", "gone"])
def test_damage_is_seen(tmp_path, damage):
    path, sums = tmp_path / "a", {}
    content = bytes(range(256)) * 9000
    with summed.create(str(path), sums) as file:
        file.write(content)
    if damage == "a bit":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "shorter":
        path.write_bytes(content[:-1])
    elif damage == "longer":
        path.write_bytes(content + b"\0")
    elif damage == "gone":
        path.unlink()
    assert summed.is_whole(str(path), sums["a"]) is (damage == "none")
