"""Benchmarks that are measured cell by cell."""

from __future__ import annotations

import pathlib

import pytest

from benchmarks import cells
from benchmarks.cells import Cell


def _cell(name: str, made: list[str], *, fails: bool = False) -> Cell:
    def measure():
        made.append(name)
        if fails:
            raise KeyboardInterrupt
        return {"rate": len(made)}

    return Cell(name, measure, seconds=60)


def test_a_second_call_measures_what_is_missing(tmp_path, capsys):
    path, made = tmp_path / "new" / "some.jsonl", []
    interrupted = [_cell("a", made), _cell("b", made, fails=True), _cell("c", made)]
    with pytest.raises(KeyboardInterrupt):
        cells.measure(interrupted, path)
    found = cells.measure([_cell(name, made) for name in "abc"], path)
    assert made == ["a", "b", "b", "c"]
    assert {name: line["result"]["rate"] for name, line in found.items()} == {
        "a": 1,
        "b": 3,
        "c": 4,
    }
    assert list(cells.read(path)) == ["a", "b", "c"]
    shown = capsys.readouterr().out
    assert "some: 0 of 3, 3 min left: a\n" in shown
    assert f"some: 1 of 3 cells are in {path}\nsome: 1 of 3, 2 min left: b\n" in shown


def test_time_left_is_by_the_pace_so_far(tmp_path, capsys):
    times = iter([0, 120, 120, 240])  # each takes twice as long as it said
    cells.measure([_cell("a", []), _cell("b", [])], tmp_path / "x.jsonl", lambda: next(times))
    assert "x: 1 of 2, 2 min left: b\n" in capsys.readouterr().out


@pytest.mark.parametrize("cut", ['{"cell": "b", "res', "{"])
def test_a_line_that_was_cut_off_is_measured_again(tmp_path, cut):
    path, made = pathlib.Path(tmp_path, "x.jsonl"), []
    cells.measure([_cell("a", made)], path)
    with path.open("a") as file:
        file.write(cut)
    cells.measure([_cell("a", made), _cell("b", made)], path)
    assert made == ["a", "b"]
    assert list(cells.read(path)) == ["a", "b"]
