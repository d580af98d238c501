"""From dead letters through a person's hands back to records, by the whole job."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re

import pytest

from pipeline import errors
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job, replay
from preprocessing.dead_letters import corrections
from preprocessing.dead_letters.corrections import Correction
from tests.preprocessing import tables

_HALF = "fixed' line 1: raw has 'name' with one half of a surrogate pair, which is not text"


@pytest.fixture
def made(tmp_path):
    """A table with three kinds of bad rows, and its records."""
    lines = [*tables.rows(60), "x,a,1,0", "61,b,500,1", "62,c", "5,again,1,1"]
    (tmp_path / "in.csv").write_text(tables.text(*lines))
    keyed = tables.make_config(tmp_path / "in.csv", error_budget=4, key=["id"])
    _quietly(job.run, keyed, str(tmp_path))
    return keyed, tmp_path


def _quietly(call, *arguments, **options) -> tuple[manifest.Manifest, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        return call(*arguments, **options), said.getvalue()


def _folder(config, root) -> pathlib.Path:
    return pathlib.Path(run_folder.records_folder(str(root), config.name))


def _letters(config, root) -> tuple[pathlib.Path, list[dict]]:
    folder = _folder(config, root)
    newest = max(folder.glob("*/dead_letter"), key=lambda path: path.parent.stat().st_ctime_ns)
    path = newest / "train.jsonl"
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def _save(path: pathlib.Path, letters: list[dict]) -> None:
    path.write_text("".join(f"{json.dumps(letter)}\n" for letter in letters))


def _records(made: manifest.Manifest) -> int:
    return sum(split.records for split in made.splits.values())


def test_lines_end_with_newlines_alone(made):
    """Editors and jq write a line separator as it is, where Python's json escapes it."""
    config, root = made
    path, letters = _letters(config, root)
    letters[0]["raw"] |= {"id": "60", "name": "one\u2028two\x85"}
    text = "\n\n".join(json.dumps(letter, ensure_ascii=False) for letter in letters)
    path.write_text(text, encoding="utf-8")
    found, said = _quietly(replay.run, config, str(root))
    assert _records(found) == 61 and "id type: 1 of 1 accepted" in said
    ledger = _folder(config, root) / corrections.FILE_NAME
    ledger.write_text(f"\n{ledger.read_text()}\n")
    assert len(corrections.read(str(_folder(config, root)))) == 1


def test_corrected_rows_become_records_and_stay_so(made):
    config, root = made
    path, letters = _letters(config, root)
    assert [(x["row"], x["column"], x["reason"], x["value"]) for x in letters] == [
        (62, "id", "type", "x"),
        (63, "size", "range", "500"),
        (64, None, "columns", "62,c"),
        (65, "id", "duplicate", None),
    ]
    letters[0]["raw"]["id"] = "60"
    letters[1]["raw"]["size"] = "5000"
    letters[2]["raw"] = {"id": "62", "name": "c", "label": "1"}
    letters[3]["raw"] = {"id": "63"}
    _save(path, letters)
    found, said = _quietly(replay.run, config, str(root))
    assert _records(found) == 63
    assert said.splitlines()[-5:] == [
        "replayed 4 corrected rows:",
        "  columns: 1 of 1 accepted",
        "  id duplicate: 1 of 1 accepted",
        "  id type: 1 of 1 accepted",
        "  size range: 0 of 1 accepted, dead letters again: 1 x size range",
    ]
    assert [source.name for source in found.sources] == ["train/files/in.csv", "corrections.jsonl"]
    _, again = _letters(config, root)
    assert [(x["row"], x["value"]) for x in again] == [(63, "5000")]
    _, said = _quietly(job.run, config, str(root))
    assert "up to date" in said, "later runs know of the corrections"

    again[0]["raw"]["size"] = "50"
    _save(root / "fixed.jsonl", again)
    found, said = _quietly(replay.run, config, str(root), str(root / "fixed.jsonl"))
    assert (
        _records(found) == 64
        and not pathlib.Path(
            builds.find_current(str(_folder(config, root))), "dead_letter"
        ).exists()
    )
    assert len(corrections.read(str(_folder(config, root)))) == 4


def test_records_are_the_bytes_of_a_repaired_file(made):
    config, root = made
    path, letters = _letters(config, root)
    letters[0]["raw"]["id"] = "60"
    letters[1]["raw"]["size"] = "50"
    _save(path, letters)
    found, _ = _quietly(replay.run, config, str(root))
    text = (root / "in.csv").read_text().replace("x,a,1,0", "60,a,1,0").replace(",500,", ",50,")
    (root / "repaired").mkdir()
    (root / "repaired" / "in.csv").write_text(text)
    repaired = tables.make_config(root / "repaired" / "in.csv", error_budget=4, key=["id"])
    wanted, _ = _quietly(job.run, repaired, str(root / "repaired"))
    sums = [
        [shard.crc32c for split in one.splits.values() for shard in split.shards]
        for one in (found, wanted)
    ]
    assert sums[0] == sums[1] and found.statistics == wanted.statistics


def test_a_run_over_the_budget_can_be_saved(made):
    _, root = made
    tight = tables.make_config(root / "in.csv", error_budget=2, key=["id"])
    with pytest.raises(errors.DataError, match="4 of 64 rows are bad"):
        _quietly(job.run, tight, str(root / "tight"))
    path, letters = _letters(tight, root / "tight")
    letters[0]["raw"]["id"] = "60"
    letters[1]["raw"]["size"] = "50"
    _save(path, letters)
    found, _ = _quietly(replay.run, tight, str(root / "tight"), num_workers=2)
    assert _records(found) == 62


def test_nothing_was_edited(made):
    config, root = made
    with pytest.raises(
        errors.UsageError, match=r"no line was edited\. Correct the values in 'raw'"
    ):
        replay.run(config, str(root))
    assert not (_folder(config, root) / "corrections.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "fixed' line 1: not JSON"),
        ("[]", "fixed' line 1: no dead letter"),
        ('{"file": "in.csv", "row": 1, "reason": "x", "raw": []}', "raw must be an object"),
        ('{"file": "in.csv", "row": 1, "reason": "x", "raw": {"ids": 1}}', "mean 'id'"),
        ('{"file": "in.csv", "row": 1, "reason": "x", "raw": {"id": 1}}', "not one of the files"),
        ('{"file": ["in.csv"], "row": 1, "reason": "x", "raw": {"id": 1}}', "not one of the files"),
        (
            '{"file": "<in>", "row": "x", "reason": "x", "raw": {"id": 1}}',
            "line 1: no correction: row",
        ),
        (
            f'{{"file": "<in>", "row": {"9" * 5001}, "reason": "x", "raw": {{"id": 1}}}}',
            "line 1: no correction: row",
        ),
        ('{"file": "<in>", "row": 1, "reason": "x", "raw": {"name": "\\ud83d"}}', _HALF),
        ('{"file": "<in>", "row": 1, "reason": "x", "raw": {"name": ["a", "\\ud83d"]}}', _HALF),
    ],
)
def test_lines_that_cannot_be_used(made, line, message):
    config, root = made
    line = line.replace("<in>", str(root / "in.csv"))
    (root / "fixed").write_text(f"{line}\n")
    with pytest.raises(errors.DataError, match=message):
        replay.run(config, str(root), str(root / "fixed"))
    assert not (_folder(config, root) / corrections.FILE_NAME).exists()
    with pytest.raises(errors.DataError, match="no such file"):
        replay.run(config, str(root), str(root / "absent"))


def test_errors_count_empty_lines_of_the_file(made):
    config, root = made
    (root / "fixed").write_text('\n\n{"file": "a", "row": 1, "reason": "x", "raw": []}\n')
    with pytest.raises(errors.DataError, match="fixed' line 3: raw must be an object"):
        replay.run(config, str(root), str(root / "fixed"))


@pytest.fixture
def with_commas(tmp_path):
    """A table with decimal commas and one bad row, of which one column is hidden."""
    rows = "".join(f"{n};Ann;1,5;{n % 2}\n" for n in range(60))
    (tmp_path / "in.csv").write_text(f"id;name;size;label\n{rows}x;Ann;1,5;?\n")
    columns = {**tables.COLUMNS, "name": {"type": "string", "sensitive": True}}
    rules = {"delimiter": ";", "decimal": ","}
    config = tables.make_config(tmp_path / "in.csv", columns, error_budget=4, csv=rules)
    _quietly(job.run, config, str(tmp_path))
    return config, tmp_path


@pytest.mark.parametrize("in_place", [True, False])
def test_numbers_that_may_be_read_in_two_ways_are_not_kept(with_commas, in_place):
    config, root = with_commas
    path, [letter] = _letters(config, root)
    fixed = path if in_place else root / "fixed"
    good = letter["raw"] | {"id": "60", "label": "0"}
    _save(fixed, [letter | {"raw": good | {"size": "2,5"}}])
    named = re.escape(f"{str(fixed)!r} line 1: 'size': '2,5' may be read in two ways")
    with pytest.raises(errors.DataError, match=f"^{named}"):
        replay.run(config, str(root), "" if in_place else str(fixed))
    assert not (_folder(config, root) / corrections.FILE_NAME).exists()
    _save(fixed, [letter | {"raw": good}])
    found, _ = _quietly(replay.run, config, str(root), "" if in_place else str(fixed))
    assert _records(found) == 61


@pytest.mark.parametrize("in_place", [True, False])
def test_a_row_that_is_corrected_twice_keeps_what_was_written_first(with_commas, in_place):
    """Its second dead letter shows a number as a text, and hides what is sensitive."""
    config, root = with_commas
    path, [letter] = _letters(config, root)
    _save(path, [letter | {"raw": {"id": "60", "name": "Bob", "size": 2.5}}])
    _, said = _quietly(replay.run, config, str(root))
    assert "id type: 0 of 1 accepted, dead letters again: 1 x label type" in said
    path, [again] = _letters(config, root)
    assert again["raw"] == {"id": "60", "name": "<redacted>", "size": "2.5", "label": "?"}
    fixed = path if in_place else root / "fixed"
    _save(fixed, [again | {"raw": again["raw"] | {"label": "1"}}])
    found, said = _quietly(replay.run, config, str(root), "" if in_place else str(fixed))
    assert _records(found) == 61 and "label type: 1 of 1 accepted" in said
    [kept] = corrections.read(str(_folder(config, root)))
    assert kept.raw == {"id": "60", "name": "Bob", "size": 2.5, "label": "1"}


@pytest.mark.parametrize("is_sensitive", [True, False])
def test_a_correction_does_not_move_to_another_row(tmp_path, is_sensitive):
    """Rows of a repeated key, and those that could not be read, are known by what the file has."""
    lines = [*tables.rows(60), "61,b", "5,again,1,1", "62,c,1,0,0"]
    table = tmp_path / "in.csv"
    table.write_text(tables.text(*lines))
    columns = {**tables.COLUMNS, "name": {"type": "string", "sensitive": is_sensitive}}
    config = tables.make_config(table, columns, error_budget=9, key=["id"])
    _quietly(job.run, config, str(tmp_path))
    path, letters = _letters(config, tmp_path)
    for letter, key in zip(letters, (70, 71, 72), strict=True):
        letter["raw"] = {"id": str(key), "name": "new", "size": "1", "label": "1"}
    _save(path, letters)
    found, said = _quietly(replay.run, config, str(tmp_path))
    assert _records(found) == 63 and "columns: 2 of 2 accepted" in said
    assert all(one.of for one in corrections.read(str(_folder(config, tmp_path))))

    table.write_text(tables.text("80,front,1,0", *lines))
    found, _ = _quietly(job.run, config, str(tmp_path))
    _, letters = _letters(config, tmp_path)
    rejected = {one["row"]: one["reason"] for one in letters}
    assert rejected == {63: "columns", 64: "duplicate", 65: "columns"}
    assert _records(found) == 61


def test_a_row_that_has_changed_is_corrected_anew(made):
    """The earlier correction of its place is of a row that is no more."""
    config, root = made
    path, letters = _letters(config, root)
    letters[1]["raw"]["size"] = "50"
    _save(path, letters)
    _quietly(replay.run, config, str(root))
    stale = root / "stale.jsonl"
    _save(stale, letters)
    text = (root / "in.csv").read_text().replace("61,b,500,1", "69,b,many,1")
    (root / "in.csv").write_text(text)
    _quietly(job.run, config, str(root))
    kept = (_folder(config, root) / corrections.FILE_NAME).read_text()
    named = r"stale.jsonl' line 2: row 63 of 'train/files/in.csv' has changed since"
    with pytest.raises(errors.DataError, match=named):
        replay.run(config, str(root), str(stale))
    assert (_folder(config, root) / corrections.FILE_NAME).read_text() == kept
    path, letters = _letters(config, root)
    assert letters[1]["raw"] == {"id": "69", "name": "b", "size": "many", "label": "1"}
    letters[1]["raw"]["size"] = "60"
    _save(path, letters)
    _, said = _quietly(replay.run, config, str(root))
    assert "size type: 1 of 1 accepted" in said


def test_the_whole_of_a_line_tells_if_it_has_changed(tmp_path):
    """Lines that are no JSON are known by their text, of which letters show the first part."""
    rows = "".join(f'{{"id": {n}, "label": {n % 2}}}\n' for n in range(60))
    bad = f'{{"id": 60, "name": "{"z" * 300}", "size": 5, "label": 1'
    (tmp_path / "in.jsonl").write_text(f"{rows}{bad}\n")
    config = tables.make_config(tmp_path / "in.jsonl", source="jsonl", error_budget=4)
    _quietly(job.run, config, str(tmp_path))
    path, [letter] = _letters(config, tmp_path)
    letter["raw"] = {"id": 60, "name": "z", "size": 5, "label": 1}
    _save(path, [letter])
    found, _ = _quietly(replay.run, config, str(tmp_path))
    assert _records(found) == 61
    changed = bad.replace('"size": 5', '"size": 80')
    (tmp_path / "in.jsonl").write_text(f"{rows}{changed}\n")
    found, _ = _quietly(job.run, config, str(tmp_path))
    assert _records(found) == 60


def test_a_line_that_was_not_parsed_is_corrected_in_place(tmp_path):
    lines = [{"id": n, "name": "a", "size": 1.5, "label": n % 2} for n in range(60)]
    lines += [{**lines[0], "id": "x", "size": float("nan")}, {**lines[0], "id": 61, "label": "?"}]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    config = tables.make_config(tmp_path / "in.jsonl", source="jsonl", error_budget=4)
    _quietly(job.run, config, str(tmp_path))
    path, letters = _letters(config, tmp_path)
    with pytest.raises(errors.UsageError, match="no line was edited"):
        replay.run(config, str(tmp_path))
    letters[0]["raw"]["id"] = 60
    _save(path, letters)
    found, said = _quietly(replay.run, config, str(tmp_path))
    assert _records(found) == 61 and "id type: 1 of 1 accepted" in said
    _, [again] = _letters(config, tmp_path)
    assert again["raw"] == {"id": 61, "name": "a", "size": 1.5, "label": "?"}


def test_summary():
    rows = [Correction(file="a", row=n, reason="range", column="x", raw={}) for n in (1, 2)]
    lines = replay.summarize(rows, {("a", 2): "y type", ("b", 1): "z"})
    assert lines[1:] == ["  x range: 1 of 2 accepted, dead letters again: 1 x y type"]
