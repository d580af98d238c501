"""Finished pieces are found again, moved as they are, and refused if anything in them differs."""

from __future__ import annotations

import dataclasses
import pathlib
import pickle
import random

import pytest

from preprocessing import sources
from preprocessing.build import beam_pipeline
from preprocessing.shards import pieces, spill
from preprocessing.sources import base
from tests.preprocessing import tables

KEPT = pieces.Keeping(marked=True)


@pytest.fixture
def source(tmp_path):
    """A table of some chunks of two parts each; a few rows are bad."""
    rows = tables.rows(200)
    rows[30] = rows[130] = "x,n,1,1"
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    data = tables.make_config(tmp_path / "in.csv", error_budget=5).data
    return sources.choose(data, base.Sizes(300, 600))


def _spilled(source, chunks, folder, keeping=KEPT) -> list[object]:
    """Returns what the chunks give, by their order."""
    folder.mkdir(exist_ok=True)
    read = beam_pipeline.ReadAndSpill(source, source.data, str(folder), keeping=keeping)
    return [list(read.process(chunk)) for chunk in chunks]


def _files(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _segments(outputs) -> list[object]:
    """Returns segments without the folder they lie in."""
    return [
        (key, dataclasses.replace(segment, path=pathlib.Path(segment.path).name))
        for key, segment in outputs
    ]


def test_a_piece_that_is_there_gives_what_reading_it_gave(source, tmp_path):
    chunks = source.plan("train")
    assert len(chunks) > 4
    first = _spilled(source, chunks, tmp_path / "a")
    whole = _files(tmp_path / "a")
    (tmp_path / "b").mkdir()
    taken = pieces.move_finished([str(tmp_path / "a")], chunks, str(tmp_path / "b"))
    assert taken == {pieces.name_piece(chunk) for chunk in chunks}
    assert _files(tmp_path / "b") == whole
    source.read = lambda chunk: pytest.fail("read again")
    again = _spilled(source, chunks, tmp_path / "b", pieces.Keeping(True, taken))
    for before, now in zip(first, again, strict=True):
        assert _segments(now[:-1]) == _segments(before[:-1])
        assert repr(pickle.loads(now[-1].value)) == repr(pickle.loads(before[-1].value))
    assert spill.count_rows_written(str(tmp_path / "b")) == 198


def test_what_is_learned_later_is_not_in_the_piece(source, tmp_path):
    source = sources.choose(source.data.model_copy(update={"key": ("id",)}))
    (chunk, *_) = source.plan("train")
    ((*_, last),) = _spilled(source, [chunk], tmp_path / "a")
    assert isinstance(last, tuple)
    found = pieces.read(str(tmp_path / "a"), chunk)
    assert found.segments[-1] == last and found.read_learned() is None


def test_pieces_that_are_not_finished_stay(source, tmp_path):
    chunks = source.plan("train")
    _spilled(source, chunks, tmp_path / "a")
    (tmp_path / "a" / f"{pieces.name_piece(chunks[1])}.piece.json").unlink()
    (tmp_path / "a" / "copies-train-00000-0000-000000.arrow").touch()
    (tmp_path / "a" / "train-00000.rows7.json").touch()
    (tmp_path / "b").mkdir()
    assert (
        len(pieces.move_finished([str(tmp_path / "a")], chunks, str(tmp_path / "b")))
        == len(chunks) - 1
    )
    left = {name for name in _files(tmp_path / "a") if ".piece." not in name}
    there = {name for name in left if name.startswith("train-000001")}
    assert left - there == {"copies-train-00000-0000-000000.arrow", "train-00000.rows7.json"}
    assert there
    assert not any(name.startswith("train-000001") for name in _files(tmp_path / "b"))


@pytest.mark.parametrize("kind", [".arrow", ".bad1.jsonl", ".tally.json", ".piece.json"])
def test_a_piece_with_one_wrong_byte_is_refused(source, tmp_path, kind):
    chunks = source.plan("train")
    _spilled(source, chunks, tmp_path / "a")
    whole = _files(tmp_path / "a")
    (name, *_) = sorted(name for name in whole if name.endswith(kind))
    random_ = random.Random(kind)
    content = bytearray(whole[name])
    content[random_.randrange(len(content))] ^= 1 << random_.randrange(7)
    (tmp_path / "a" / name).write_bytes(content)
    (tmp_path / "b").mkdir()
    taken = pieces.move_finished([str(tmp_path / "a")], chunks, str(tmp_path / "b"))
    assert taken == {pieces.name_piece(chunk) for chunk in chunks} - {name[: len("train-000000")]}


def test_pieces_of_another_plan_are_refused(source, tmp_path):
    chunks = source.plan("train")
    _spilled(source, chunks, tmp_path / "a")
    others = sources.choose(source.data, base.Sizes(300, 200)).plan("train")
    (tmp_path / "b").mkdir()
    assert not set(chunks) & set(others)
    assert pieces.move_finished([str(tmp_path / "a")], others, str(tmp_path / "b")) == frozenset()
    assert _files(tmp_path / "b") == {}


def test_pieces_of_several_folders_are_put_together(source, tmp_path):
    chunks = source.plan("train")
    whole = _spilled(source, chunks, tmp_path / "whole") and _files(tmp_path / "whole")
    _spilled(source, chunks[:3], tmp_path / "a")
    _spilled(source, chunks[2:], tmp_path / "b")
    # As if the run of b had been killed while it took the second piece from a.
    (moved,) = (tmp_path / "a").glob("train-000001-0000.rows*.arrow")
    moved.rename(tmp_path / "b" / moved.name)
    (tmp_path / "c").mkdir()
    folders = [str(tmp_path / name) for name in ("a", "b")]
    taken = pieces.move_finished(folders, chunks, str(tmp_path / "c"))
    assert taken == {pieces.name_piece(chunk) for chunk in chunks} - {"train-000001"}
    found = _files(tmp_path / "c")
    assert found.items() <= whole.items()
    assert pieces.count_finished(str(tmp_path / "c")) == len(chunks) - 1
