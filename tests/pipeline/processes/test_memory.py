"""Memory that is free: of the machine, and of a container."""

from __future__ import annotations

import pytest

from pipeline.processes import memory


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [("max", "5", 2048), ("1500", "500", 1000), ("9999999", "5", 2048), ("100", "300", 0)],
)
def test_the_smaller_of_machine_and_container(tmp_path, limit, used, expected):
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:       2 kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert memory.available(str(tmp_path / "meminfo"), str(tmp_path)) == expected


def test_without_a_container_and_without_linux(tmp_path):
    (tmp_path / "meminfo").write_text("MemAvailable:       2 kB\n")
    assert memory.available(str(tmp_path / "meminfo"), str(tmp_path)) == 2048
    assert memory.available(str(tmp_path / "none"), str(tmp_path)) is None
