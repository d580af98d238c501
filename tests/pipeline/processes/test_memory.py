"""Memory that is free: of the machine, and of a container; and what was killed for lack of it."""

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


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"own": "0::/user/me\n", "user/me/memory.events": "oom 3\noom_kill 2\n"}, 2),
        ({"own": "0::/\n", "memory.events": "oom_kill 3\noom_group_kill 9\n"}, 3),
        ({"own": "1:cpu:/x\n", "memory.events": "oom_kill 3\n"}, 3),
        ({"own": "4:memory:/x\n0::/elsewhere\n"}, 7),
        ({}, 7),
        ({"vmstat": "nr_free_pages 7\n"}, None),
        ({"vmstat": None}, None),
    ],
)
def test_kills_are_counted_in_the_own_group_else_on_the_machine(tmp_path, files, expected):
    for name, text in ({"vmstat": "oom_kill_x 1\noom_kill 7\n"} | files).items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    own, vmstat = str(tmp_path / "own"), str(tmp_path / "vmstat")
    assert memory.count_kills(own, str(tmp_path), vmstat=vmstat) == expected
