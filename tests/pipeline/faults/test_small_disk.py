"""A disk that is full and has room again."""

from __future__ import annotations

import errno

import pytest

from pipeline.faults import small_disk
from tests.support.mounts import run_in_process

SIZE = 8 << 20


def test_a_full_disk_takes_nothing_until_it_is_freed(tmp_path):
    folder = tmp_path / "run"

    def action():
        disk = small_disk.SmallDisk(str(folder), SIZE)
        (folder / "first").write_bytes(b"x" * 100_000)
        disk.fill()
        with pytest.raises(OSError) as raised:
            (folder / "second").write_bytes(b"x" * 100_000)
        assert raised.value.errno == errno.ENOSPC
        disk.free()
        (folder / "second").write_bytes(b"y" * 100_000)
        disk.keep()
        disk.keep()

    run_in_process(action)
    # What was on it is there once it is gone, also for those who did not see it.
    assert (folder / "first").read_bytes() == b"x" * 100_000
    assert (folder / "second").read_bytes() == b"y" * 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_disk_has_room_for_the_runs(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(bytes(1000))
    assert small_disk.size_of(str(tmp_path)) == 1000
    assert small_disk.estimate_bytes(str(tmp_path)) == 3000 + (64 << 20)


def test_a_disk_larger_than_memory_is_refused():
    assert small_disk.find_obstacle(1 << 20) is None
    assert "MiB" in small_disk.find_obstacle(1 << 50)
