"""Columns with `list: true`: the same rows give the same records, statistics and dead letters from
every source, and from any number of workers."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import pathlib

import pytest
import tensorflow as tf

from pipeline.source_table import SOURCES
from preprocessing.sources import base
from tests.preprocessing import list_files, table_runs, tables
from tests.preprocessing.list_files import FORMATS, NO_TEXT
from tests.support.sets import slow

DAY, MOST = "2024-06-01", 3
LISTS = {
    "tags": {"type": "string", "allowed": ["a", "b", "é", "x,y", 'a "b"']},
    "seen": {"type": "int64", "min": 0, "max": 99},
    "prices": {"type": "float32", "min": 0},
}
# What is not as in the first row, and the dead letter that it makes: by its column and reason.
# Those of `SOME` only come about where lists must be there, and no longer than allowed.
SOME = ("missing", "items")
NATIVE = (
    ({}, None),
    ({"tags": [], "seen": [], "prices": []}, None),
    ({"tags": ["a", "b", "é"], "seen": [0, 9, 99], "prices": [0.0, 0.25, 1e6]}, None),
    ({"tags": ["x,y", 'a "b"']}, None),
    ({"tags": None}, ("tags", "missing")),
    ({"seen": None}, ("seen", "missing")),
    ({"prices": None}, ("prices", "missing")),
    ({"tags": ["b", "a", "b", "no"]}, ("tags", "items")),
    ({"seen": [5, 5, 6, 100]}, ("seen", "items")),
    ({"prices": [1.5, 1.25, 1.5, -1.0]}, ("prices", "items")),
    ({"tags": ["a", "no"]}, ("tags", "allowed")),
    ({"seen": [1, 100]}, ("seen", "range")),
    ({"prices": [0.5, -0.5]}, ("prices", "range")),
    ({"tags": ["a", ""]}, ("tags", "item")),
    ({"seen": [1, -1]}, ("seen", "item")),
    ({"prices": [0.5, math.nan]}, ("prices", "finite")),
)
# In a file of their own, as the type of an item is that of the column there.
WRONG = (
    ({}, None),
    ({"seen": [1, 1.5]}, ("seen", "type")),
    ({"prices": [0.5, "x"]}, ("prices", "type")),
    ({"tags": ["a", NO_TEXT]}, ("tags", "encoding")),
)
# Every format that tells a missing list from an empty one; and each in a folder, where it may be.
WHOLE = [name for name in FORMATS if name != "csv_without_quotes"]
IN_FOLDERS = [name for name in WHOLE if SOURCES[FORMATS[name].source].in_folders]
RULES = {
    "lenient": {"on_longer": "truncate", "missing": "allow"},
    "strict": {"on_longer": "reject", "missing": "reject"},
}


@dataclasses.dataclass(frozen=True)
class Made:
    """What became of rows: Examples and bytes of the shards by split, statistics as the manifest
    has them, `(file, row, column, reason)` and the value of each dead letter, and what was said."""

    records: dict[str, list[dict]]
    shards: dict[str, list[bytes]]
    statistics: dict
    letters: dict[tuple, str | None]
    said: str


def _rows(cases=NATIVE, first=0) -> list[dict]:
    plain = {"tags": ["a"], "seen": [1], "prices": [0.5]}
    return [
        {"id": n, "day": DAY, "fold": "te"[n % 4 == 2], **plain, **lists, "label": n % 2}
        for n, (lists, _) in enumerate(cases, first)
    ]


# The last row of the first file is a copy of its first.
FILES = {"a": [*_rows(), *_rows()[:1]], "b": _rows(WRONG, len(NATIVE))}


def _config(pattern, name: str, rules: str, **data):
    form = FORMATS[name]
    columns = {column: {"type": "string"} for column in ("day", "fold")}
    for column, given in LISTS.items():
        separator = "json" if form.json else list_files.SEPARATORS[column]
        shape = {"list": True, "max_items": MOST, "separator": separator}
        columns[column] = {**given, **shape, **RULES[rules]}
    columns = {"id": {"type": "int64"}, **columns, "label": {"type": "int64"}}
    split = {"by": "column", "column": "fold", "values": {"t": "train", "e": "eval"}}
    given = {"source": form.source, "split": split, "error_budget": 99, **form.data, **data}
    return tables.make_config(pattern, columns, **given)


def _write(folder: pathlib.Path, name: str, files: dict[str, list[dict]]) -> pathlib.Path:
    folder.mkdir(parents=True)
    for stem, rows in files.items():
        (folder / f"{stem}.{name}").write_bytes(FORMATS[name].write(rows))
    return folder / f"*.{name}"


def _preprocess(root, name: str, rules: str, *, files=FILES, in_folder=False) -> Made:
    if in_folder:
        files = {
            stem: [{n: v for n, v in row.items() if n != "day"} for row in rows]
            for stem, rows in files.items()
        }
        _write(root / "raw" / f"day={DAY}", name, files)
        pattern = root / "raw" / "day=*" / f"*.{name}"
    else:
        pattern = _write(root / "raw", name, files)
    _, folder, said = table_runs.run(_config(pattern, name, rules), root)
    manifest = json.loads((folder / "manifest.json").read_text())
    paths = {
        split: [folder / shard["path"] for shard in one["shards"]]
        for split, one in manifest["splits"].items()
    }
    letters = {
        (
            pathlib.Path(letter["file"]).stem,
            letter["row"] - FORMATS[name].header,
            letter["column"],
            letter["reason"],
        ): letter["value"]
        for letter in table_runs.letters(folder)
    }
    return Made(
        {split: _read_examples(of_split) for split, of_split in paths.items()},
        {split: [path.read_bytes() for path in of_split] for split, of_split in paths.items()},
        manifest["statistics"],
        letters,
        said,
    )


def _read_examples(paths: list[pathlib.Path]) -> list[dict]:
    """Returns the values of each feature that is there, in the order of the ids."""
    found = []
    named = tf.constant([str(path) for path in paths], tf.string)
    for payload in tf.data.TFRecordDataset(named).as_numpy_iterator():
        row = {}
        for name, feature in tf.train.Example.FromString(payload).features.feature.items():
            kind = feature.WhichOneof("kind")
            values = getattr(feature, kind).value
            row[name] = [v.decode() for v in values] if kind == "bytes_list" else list(values)
        found.append(row)
    return sorted(found, key=lambda row: row["id"])


def _is_wrong(fault, rules: str) -> bool:
    return fault is not None and (rules == "strict" or fault[1] not in SOME)


def _expect_rows(rules: str) -> list[dict]:
    """Returns the rows that become records, in the order of the ids, their lists cut."""
    faults = [fault for _, fault in (*NATIVE, NATIVE[0], *WRONG)]
    kept = [
        {n: v[:MOST] if isinstance(v, list) else v for n, v in row.items()}
        for row, fault in zip((*FILES["a"], *FILES["b"]), faults, strict=True)
        if not _is_wrong(fault, rules)
    ]
    return sorted(kept, key=lambda row: row["id"])


def _expect_records(rows: list[dict], fold: str) -> list[dict]:
    return [
        {n: v if isinstance(v, list) else [v] for n, v in row.items() if v is not None}
        for row in rows
        if row["fold"] == fold
    ]


def _expect_letters(rules: str) -> set[tuple]:
    return {
        (stem, number, *fault)
        for stem, cases in (("a", NATIVE), ("b", WRONG))
        for number, (_, fault) in enumerate(cases, 1)
        if _is_wrong(fault, rules)
    }


def _check_statistics(found: dict, rows: list[dict]) -> None:
    """Holds the statistics of one split to its rows: of lengths over rows, of values over items."""
    for name in LISTS:
        lists, one = [row[name] for row in rows if row[name] is not None], found["columns"][name]
        items = [item for of_row in lists for item in of_row]
        sizes, lengths = [len(of_row) for of_row in lists], one["lengths"]
        assert (one["missing"], one["count"]) == (len(rows) - len(lists), len(items))
        assert (lengths["count"], lengths["missing"]) == (len(lists), 0)
        assert (lengths["min"], lengths["max"]) == (min(sizes), max(sizes))
        assert lengths["mean"] == pytest.approx(sum(sizes) / len(sizes))
        if name == "tags":
            counts = collections.Counter(items)
            assert one["vocabulary"] == sorted(map(list, counts.items()), key=lambda p: (-p[1], p))
        else:
            assert (one["min"], one["max"]) == (min(items), max(items))
            assert one["mean"] == pytest.approx(sum(items) / len(items))


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict[str, Made]:
    """What becomes of the rows from JSON lines, by the rules."""
    root = tmp_path_factory.mktemp("plain")
    return {rules: _preprocess(root / rules, "jsonl", rules) for rules in RULES}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("name", "in_folder"),
    [*((name, False) for name in WHOLE), *((name, True) for name in IN_FOLDERS)],
)
def test_every_source_gives_the_same(plain, tmp_path, name, in_folder, rules):
    made, rows = _preprocess(tmp_path, name, rules, in_folder=in_folder), _expect_rows(rules)
    assert set(made.letters) == _expect_letters(rules)
    for split in ("train", "eval"):
        assert made.records[split] == _expect_records(rows, split[0])
        of_split = [row for row in rows if row["fold"] == split[0]]
        _check_statistics(made.statistics[split], of_split)
    assert made.shards == plain[rules].shards
    assert made.statistics == plain[rules].statistics
    for column in LISTS:
        line = f"train: 1 rows had more than {MOST} items in {column}; the first were kept"
        assert (line in made.said) is (rules == "lenient")


def test_every_source_of_tables_is_here():
    tables_of = {name for name, kind in SOURCES.items() if kind.called and not kind.pixels}
    assert {form.source for form in FORMATS.values()} == tables_of


@pytest.mark.parametrize("name", WHOLE)
def test_letters_show_items_as_they_are_read(tmp_path, name):
    """As texts, and not as bytes, whatever the source has."""
    files = {"a": _rows([NATIVE[2], *NATIVE[:2], ({"tags": ["é", "a", "a", "b"]}, None)])}
    made, form = _preprocess(tmp_path, name, "strict", files=files), FORMATS[name]
    shown = '["é", "a", "a", "b"]' if form.json else "é|a|a|b"
    shown = shown if form.texts else "['é', 'a', 'a', 'b']"
    assert made.letters == {("a", 4, "tags", "items"): shown}


def test_a_csv_without_quotes_cannot_tell_an_empty_list_from_a_missing_one(tmp_path):
    """An unquoted empty cell is a missing list (docs/raw-data.md#lists): the rest is the same."""
    some = [row for row in FILES["a"] if "," not in str(row["tags"] and row["tags"][0])]
    bare = _preprocess(tmp_path / "bare", "csv_without_quotes", "lenient", files={"a": some})
    nulls = [{n: None if v == [] else v for n, v in row.items()} for row in some]
    alike = _preprocess(tmp_path / "alike", "jsonl", "lenient", files={"a": nulls})
    assert bare.shards == alike.shards and bare.statistics == alike.statistics
    assert set(bare.letters) == set(alike.letters) and len(bare.letters) == 6
    assert {"id", "day", "fold", "label"} in map(set, bare.records["train"])


@pytest.mark.parametrize("name", ["csv", "tfrecord", *map(slow, ("jsonl", "parquet"))])
def test_workers_and_chunks_change_nothing(tmp_path, name):
    """The same bytes from one process and from two, of rows read together or a few at a time."""
    rows = [row for first in range(0, 160, len(NATIVE)) for row in _rows(NATIVE, first)]
    files = {str(part): rows[part::4] for part in range(4)}
    job_config = _config(_write(tmp_path / "raw", name, files), name, "lenient")
    cut, found = base.Sizes(300, 900), []
    for workers, sizes in ((1, base.SIZES), (1, cut), (2, cut)):
        root = tmp_path / str(len(found))
        made, folder, _ = table_runs.run(job_config, root, num_workers=workers, sizes=sizes)
        assert sum(split.records for split in made.splits.values()) == 100
        found.append(table_runs.files(folder))
    assert found[1] == found[0] and found[2] == found[0]
