"""Corrections lie over rows as they are read, whatever the source, and only over those meant."""

from __future__ import annotations

import json
import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import config, errors
from preprocessing import sources
from preprocessing.dead_letters import corrections
from preprocessing.dead_letters.corrections import Correction
from preprocessing.rows import validate
from preprocessing.sources.base import RawFile
from tests.preprocessing import idx_files, tables
from tests.preprocessing.list_files import FORMATS


def _read(data: config.Data, *found: Correction) -> list[validate.Good]:
    source = corrections.Corrected(sources.choose(data), "ledger", list(found))
    return [
        validate.enforce(rows, data, "train")
        for chunk in source.plan("train")
        for rows in source.read(chunk)
    ]


def _rows(good: list[validate.Good]) -> dict[int, dict]:
    return {
        number: row
        for part in good
        for number, row in zip(part.numbers.tolist(), part.batch.to_pylist(), strict=True)
    }


def _letters(data: config.Data) -> list:
    return [letter for part in _read(data) for letter in part.letters]


def _correct(letter, file: str, **raw) -> Correction:
    return Correction(file=file, row=letter.row, reason=letter.reason, of=letter.of, raw=raw)


CSV = tables.text("1,a,1,0", "x,b,5,1", "3,c", "4,d,400,NA", "5,e,2,1")
MENDED = tables.text("1,a,1,0", "2,b,5,1", "3,c,7,1", "4,d,40,0", "5,e,2,1")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "in.csv").write_text(CSV)
    return tables.make_config(tmp_path / "in.csv", error_budget=9).data


def test_records_are_those_of_a_repaired_file(data, tmp_path):
    bad = {letter.row: letter for letter in _letters(data)}
    assert bad[3].raw == {"id": "x", "name": "b", "size": "5", "label": "1"}
    assert bad[4].raw is None and bad[4].value == "3,c"
    file = "train/files/in.csv"
    good = _read(
        data,
        _correct(bad[3], file, id="2", name="b"),
        _correct(bad[4], file, id=3, name="c", size=7.0, label="1"),
        _correct(bad[5], file, **{**bad[5].raw, "size": "40", "label": "0"}),
    )
    assert not any(part.letters for part in good)
    (tmp_path / "in.csv").write_text(MENDED)
    whole = _rows(_read(data))
    assert _rows(good) == whole and len(whole) == 5
    assert sorted(n for part in good for n in part.numbers.tolist()) == [2, 3, 4, 5, 6]


def test_a_number_that_may_be_read_in_two_ways_is_refused(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id;name;size;label\n1;a;1,5;0\n2;b;x;1\n")
    rules = {"delimiter": ";", "decimal": ",", "thousands": "."}
    data = tables.make_config(path, error_budget=9, csv=rules).data
    [bad] = _letters(data)
    for text in ("1.000", "1.000,5", "2,5"):
        line = (
            f"'ledger': 'train/files/in.csv' row 3: 'size': '{text}' may be read in two ways, as "
            "the files have data.csv.decimal ','; write it as a number without quotes, such as "
            "1000.5"
        )
        with pytest.raises(errors.DataError, match=f"^{re.escape(line)}$"):
            _read(data, _correct(bad, "train/files/in.csv", size=text))
    good = _read(data, _correct(bad, "train/files/in.csv", size=25.5))
    assert [row["size"] for row in _rows(good).values()] == [1.5, 25.5]
    good = _read(data, _correct(bad, "train/files/in.csv", size="25"))
    assert [row["size"] for row in _rows(good).values()] == [1.5, 25]


def test_a_row_that_is_another_by_now_is_left_alone(data, tmp_path):
    bad = {letter.row: letter for letter in _letters(data)}
    found = [_correct(bad[3], "train/files/in.csv", id="2")]
    found.append(_correct(bad[4], "train/files/in.csv", id="2"))
    (tmp_path / "in.csv").write_text(CSV.replace("x,b,5,1", "x,bb,5,1").replace("3,c", "3,cc"))
    assert {letter.row for part in _read(data, *found) for letter in part.letters} == {3, 4, 5}


def test_bad_corrections_are_dead_letters_again(data):
    bad = {letter.row: letter for letter in _letters(data)}
    good = _read(data, _correct(bad[3], "train/files/in.csv", id="", size=[1]))
    (again,) = [letter for part in good for letter in part.letters if letter.row == 3]
    assert (again.column, again.reason) == ("id", "missing")
    assert again.raw == {"id": None, "name": "b", "size": [1], "label": "1"} or again.raw
    assert again.of == validate.hash_raw_row(again.raw) != bad[3].of


def test_rows_of_another_file_are_not_meant(data):
    bad = {letter.row: letter for letter in _letters(data)}
    good = _read(data, _correct(bad[3], "train/files/other.csv", id="2"))
    assert 3 in {letter.row for part in good for letter in part.letters}


def test_hidden_values_stay_what_they_are(tmp_path):
    columns = {**tables.COLUMNS, "name": {"type": "string", "sensitive": True}}
    (tmp_path / "in.csv").write_text(tables.text("x,Ann,1,0"))
    data = tables.make_config(tmp_path / "in.csv", columns, error_budget=9).data
    (letter,) = _letters(data)
    assert letter.raw["name"] == validate.REDACTED
    (row,) = _rows(
        _read(data, _correct(letter, "train/files/in.csv", **letter.raw | {"id": "1"}))
    ).values()
    assert row["name"] == "Ann" and row["id"] == 1


def test_json_lines_and_parquet(tmp_path):
    columns = {
        "id": {"type": "int64"},
        "pair": {"type": "float32", "shape": [2]},
        "label": {"type": "int64", "max": 1},
    }
    rows = [{"id": i, "pair": [i, 0.5], "label": 7 if i == 2 else 1} for i in range(4)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows) + "{broken\n")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    for source in ("jsonl", "parquet"):
        path = tmp_path / f"in.{source}"
        data = tables.make_config(path, columns, source=source, error_budget=9).data
        letter, *broken = _letters(data)
        file = f"train/files/in.{source}"
        found = [_correct(letter, file, **letter.raw | {"label": 0, "pair": [9, 9.5]})]
        found += [_correct(one, file, id=7, pair=[1, 2], label=1) for one in broken]
        good = _read(data, *found)
        made = {row["id"]: row for row in _rows(good).values()}
        assert made[2] == {"id": 2, "pair": [9.0, 9.5], "label": 0}
        assert not any(part.letters for part in good) and len(made) == 4 + len(broken)
        again = [
            x for part in _read(data, _correct(letter, file, label="one")) for x in part.letters
        ]
        (again,) = [x for x in again if x.row == letter.row]
        assert again.reason == "type" and again.value == "one"


_LINES = {
    "id": {"type": "int64"},
    "name": {"type": "string", "sensitive": True, "missing": "allow"},
    "text": {"type": "string", "missing": "allow"},
    "size": {"type": "float32", "missing": "allow"},
    "tags": {"type": "string", "list": True, "max_items": 3, "missing": "allow"},
    "label": {"type": "int64", "max": 1},
}
_LINES_FILE = "train/files/in.jsonl"


def _write_lines(tmp_path, *rows: dict) -> config.Data:
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tables.make_config(tmp_path / "in.jsonl", _LINES, source="jsonl", error_budget=9).data


def test_lines_that_were_not_parsed_keep_what_is_not_corrected(tmp_path):
    """Also what is hidden or too long to show, a NaN, and whole numbers in a text."""
    row = {"id": 1, "name": "Ann", "text": "y" * 5000, "size": float("nan"), "tags": [7, 10**25]}
    good = {**row, "label": True}
    data = _write_lines(tmp_path, {**good, "id": 0}, {**good, "id": "x"}, {**good, "label": "?"})
    letters = _letters(data)
    assert "Ann" not in repr(letters) and "text" not in letters[0].raw
    found = [
        _correct(letters[0], _LINES_FILE, **letters[0].raw | {"id": 1}),
        _correct(letters[1], _LINES_FILE, **letters[1].raw | {"label": "1", "name": "Bob"}),
    ]
    made = _rows(_read(data, *found))
    same = {"text": "y" * 5000, "size": None, "tags": ["7", str(10**25)], "label": 1}
    assert list(made.values()) == [
        {"id": 0, "name": "Ann", **same},
        {"id": 1, "name": "Ann", **same},
        {"id": 1, "name": "Bob", **same},
    ]


def test_another_value_of_a_line_that_cannot_be_parsed_is_a_dead_letter_still(tmp_path):
    data = _write_lines(tmp_path, {"id": "x", "text": 1.5, "name": "Ann", "label": 1})
    [letter] = _letters(data)
    good = _read(data, _correct(letter, _LINES_FILE, **letter.raw | {"id": 2}))
    [again] = [one for part in good for one in part.letters]
    assert _rows(good) == {}
    assert (again.row, again.column, again.reason) == (1, "text", "type")
    assert again.raw == letter.raw | {"id": 2}
    assert again.of == validate.hash_raw_row(again.raw) != letter.of
    both = _correct(letter, _LINES_FILE, **again.raw | {"text": "one"})
    [row] = _rows(_read(data, both)).values()
    assert (row["id"], row["text"], row["name"]) == (2, "one", "Ann")
    changed = _write_lines(tmp_path, {"id": "x", "text": 2.5, "name": "Ann", "label": 1})
    assert [one.of for one in _letters(changed)] != [letter.of]
    assert _rows(_read(changed, both)) == {}


def test_corrections_of_lines_by_what_they_began_with_hold(tmp_path):
    """As earlier versions wrote them, whose dead letters of such lines had no columns."""
    line = {"id": "x", "text": "a", "label": 1}
    data = _write_lines(tmp_path, line)
    [letter] = _letters(data)
    of = validate.hash_raw_row(json.dumps(line))
    one = _correct(letter, _LINES_FILE, id=4, label=0).model_copy(update={"of": of})
    [row] = _rows(_read(data, one)).values()
    assert (row["id"], row["label"], row["text"]) == (4, 0, None)


@pytest.mark.parametrize(
    "name", [name for name in FORMATS if name not in ("csv_without_quotes", "tfrecord_gz")]
)
def test_lists(tmp_path, name):
    """Each row has its own new values, and keeps its other lists, whatever becomes of the rest."""
    form = FORMATS[name]
    own = {"tags": ("string", "|"), "seen": ("int64", " "), "prices": ("float32", ";")}
    columns = {"id": {"type": "int64"}, "label": {"type": "int64", "max": 1}}
    for column, (kind, separator) in own.items():
        separator = "json" if form.json else separator
        given = {"type": kind, "list": True, "max_items": 3, "separator": separator}
        columns[column] = given
    plain = {"label": 1, "tags": ["x", "y"], "seen": [4, 5], "prices": [0.5]}
    rows = [{"id": n, **plain} for n in range(7)]
    changed: dict[int, tuple[dict, dict]] = {
        1: ({"tags": ["a"] * 4}, {"tags": ["a", "é"]}),
        2: ({"label": 7}, {"label": 0}),
        3: ({"seen": [1, 2, 3, 4]}, {"seen": [1, "x"]}),
        4: ({"tags": ["b"] * 4}, {"tags": '["c", "d"]' if form.json else "c|d"}),
        5: ({"prices": [0.5] * 4}, {"prices": [1, 0.25], "seen": []}),
        6: ({"tags": ["a"] * 4}, {"tags": ["a", 1]}),
    }
    raw = [{**row, **changed.get(row["id"], ({}, {}))[0]} for row in rows]
    path = tmp_path / f"in.{name}"
    path.write_bytes(form.write(raw))
    data = tables.make_config(path, columns, source=form.source, error_budget=9).data
    bad = {int(letter.raw["id"]): letter for letter in _letters(data)}
    assert list(bad) == list(changed)
    found = [_correct(bad[n], f"train/files/in.{name}", **new) for n, (_, new) in changed.items()]
    good = _read(data, *found)
    expected = {n: {**row, **changed.get(n, ({}, {}))[1]} for n, row in enumerate(rows)}
    expected[4]["tags"], expected[6]["tags"] = ["c", "d"], ["a", "1"]
    del expected[3]
    assert {row["id"]: row for row in _rows(good).values()} == expected
    [again] = [letter for part in good for letter in part.letters]
    assert (again.row, again.column, again.reason) == (bad[3].row, "seen", "type")


@pytest.mark.parametrize("name", ["csv", "csv_of_json", "jsonl", "parquet", "avro"])
@pytest.mark.parametrize("value", ["\ud83d", ["\ud83d"], ["a", "\ud83d", 1], '["\\ud83d"]'])
def test_half_a_surrogate_pair_is_a_dead_letter_again(tmp_path, name, value):
    """Also of a line that an earlier version, or a person, has written to the corrections."""
    form = FORMATS[name]
    tags = {"type": "string", "list": True, "max_items": 3, "separator": "json"}
    columns = {"id": {"type": "int64"}, "tags": tags, "label": {"type": "int64", "max": 1}}
    rest = {"seen": [1], "prices": [0.5], "label": 1}
    rows = [{"id": n, "tags": ["x"] * (4 if n == 2 else 1), **rest} for n in range(4)]
    path = tmp_path / f"in.{name}"
    path.write_bytes(form.write(rows))
    if not form.json:
        columns["tags"] = {**tags, "separator": "|"}
    data = tables.make_config(path, columns, source=form.source, error_budget=9).data
    [bad] = _letters(data)
    corrections.write(str(tmp_path), [_correct(bad, f"train/files/in.{name}", tags=value)])
    good = _read(data, *corrections.read(str(tmp_path)))
    made, letters = _rows(good), [letter for part in good for letter in part.letters]
    if form.json or "\\" not in value:
        [again] = letters
        assert (again.row, again.column, again.reason) == (bad.row, "tags", "encoding")
    assert len(made) + len(letters) == 4


def test_items_that_may_be_read_in_two_ways_are_refused(tmp_path):
    prices = {"type": "float32", "list": True, "max_items": 3}
    columns = {"id": {"type": "int64"}, "prices": prices, "label": {"type": "int64"}}
    path, file = tmp_path / "in.csv", "train/files/in.csv"
    path.write_text("id;prices;label\n1;1,5|2;0\n2;x;1\n")
    rules = {"delimiter": ";", "decimal": ","}
    data = tables.make_config(path, columns, error_budget=9, csv=rules).data
    [bad] = _letters(data)
    for value in (["2", "2,5"], "2|2,5", ["2.5"]):
        with pytest.raises(errors.DataError, match=r"'prices': '.*2[.,]5' may be read in two ways"):
            _read(data, _correct(bad, file, prices=value))
    good = _read(data, _correct(bad, file, prices=[2.5, 1]))
    assert [row["prices"] for row in _rows(good).values()] == [[1.5, 2.0], [2.5, 1.0]]


def test_a_text_among_numbers_makes_no_text_of_those_of_other_rows(tmp_path):
    columns = {"name": {"type": "string", "missing": "allow"}, "label": {"type": "int64", "max": 1}}
    names = pa.array([math.inf, math.inf, 1.5])
    pq.write_table(pa.table({"name": names, "label": [7, 7, 7]}), tmp_path / "in.parquet")
    path = tmp_path / "in.parquet"
    data = tables.make_config(path, columns, source="parquet", error_budget=9).data
    changes: list[dict] = [{"name": "one", "label": 1}, {"label": 1}, {"label": 1}]
    found = [
        _correct(letter, "train/files/in.parquet", **new)
        for letter, new in zip(_letters(data), changes, strict=True)
    ]
    good = _read(data, *found)
    assert sorted(row["name"] for row in _rows(good).values()) == ["1.5", "one"]
    [again] = [letter for part in good for letter in part.letters]
    assert (again.row, again.column, again.reason) == (2, "name", "finite")


def test_images_are_kept_and_only_their_label_is_corrected(tmp_path):
    job = idx_files.make_config({"train": idx_files.write_pair(tmp_path, "train", 5)})
    with open(tmp_path / "train-labels", "r+b") as file:
        file.seek(8 + 3)
        file.write(b"\x63")
    (letter,) = _letters(job.data)
    assert letter.raw == {"label": 99}
    names = {file.path: file.name for file in sources.choose(job.data).files()}
    rows = _rows(_read(job.data, _correct(letter, names[letter.file], label=4)))
    assert len(rows) == 5 and 4 in {row["label"] for row in rows.values()}


def test_the_ledger(tmp_path, data):
    assert corrections.read(str(tmp_path)) == []
    source = sources.choose(data)
    assert corrections.wrap(source, str(tmp_path)) is source
    some = [Correction(file="b", row=2, reason="type", of="y", raw={"id": 1})]
    some.insert(0, Correction(file="a", row=9, reason="type", column="id", of="x", raw={}))
    corrections.write(str(tmp_path), some[::-1])
    assert corrections.read(str(tmp_path)) == some
    over = corrections.wrap(source, str(tmp_path))
    ledger = str(tmp_path / "corrections.jsonl")
    assert over.files() == [*source.files(), RawFile("corrections.jsonl", ledger)]
    (tmp_path / "corrections.jsonl").write_text('{"file": "a"}\n')
    with pytest.raises(errors.DataError, match=r"corrections.jsonl' line 1: no correction"):
        corrections.wrap(source, str(tmp_path))
    line = '{"file": "a", "row": 9, "reason": "type", "raw": {}}\n'
    (tmp_path / "corrections.jsonl").write_text(line)
    with pytest.raises(
        errors.DataError, match=r"corrections.jsonl' line 1: has no 'of', so it may"
    ):
        corrections.wrap(source, str(tmp_path))


def test_numbers_of_lists_as_json_are_read_in_one_way(tmp_path):
    prices = {"type": "float32", "list": True, "max_items": 3, "separator": "json"}
    columns = {"id": {"type": "int64"}, "prices": prices, "label": {"type": "int64"}}
    path, file = tmp_path / "in.csv", "train/files/in.csv"
    path.write_text("id;prices;label\n1;[1.5, 2];0\n2;[x];1\n")
    rules = {"delimiter": ";", "decimal": ","}
    data = tables.make_config(path, columns, error_budget=9, csv=rules).data
    [bad] = _letters(data)
    rows = _rows(_read(data, _correct(bad, file, prices="[2.5, 3]")))
    assert [row["prices"] for row in rows.values()] == [[1.5, 2.0], [2.5, 3.0]]


def test_columns_that_do_not_exist(data):
    corrections.check_columns({"id": 1}, data.columns, "here")
    with pytest.raises(errors.DataError, match=r"here: raw has 'nmae', .* mean 'name'"):
        corrections.check_columns({"nmae": 1}, data.columns, "here")
