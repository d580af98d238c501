"""The whole job on tables: dead letters, budgets, keys, and equal bytes however it is run."""

from __future__ import annotations

import collections
import contextlib
import csv
import gzip
import io
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.records import manifest
from preprocessing.schema_inference import write_config
from preprocessing.sources import base
from tests.preprocessing import table_runs, tables

SAMPLE = config_file.SHIPPED.parent / "data" / "flights" / "sample.csv.gz"


@pytest.fixture
def mixed(tmp_path) -> config.Config:
    """300 good rows, three bad ones, and one without a label, which is bad as well."""
    lines = tables.rows(300)
    lines[100:100] = ["x,a,1,0", "1000,a,500,0", "1001,a"]
    lines.append("1002,a,1,")
    (tmp_path / "in.csv").write_text(tables.text(*lines))
    return tables.make_config(tmp_path / "in.csv", error_budget=0.05)


def test_flights(tmp_path):
    loaded = config_file.load("flights", [f"data.inputs.train.files={SAMPLE}"])
    made, folder, said = table_runs.run(loaded, tmp_path)
    with gzip.open(SAMPLE, "rt") as file:
        raw = [row for row in csv.DictReader(file) if row["arr_delay"] != "NA"]
    dropped = f"train: {5000 - len(raw)} of 5,000 rows dropped: no value in 'arr_delay'"
    assert f"{dropped} (data.columns.arr_delay.missing: drop)" in said
    splits = {name: table_runs.records(loaded, made, folder, name) for name in config.SPLITS}
    every = [row for rows in splits.values() for row in rows]
    assert len(every) == len(raw)
    days = [{(row["month"], row["day"]) for row in rows} for rows in splits.values()]
    assert sum(map(len, days)) == len(set.union(*days)), "no day is in two splits"
    assert all(25 < len(held) < 50 for held in days[1:])
    for name in ("arr_delay", "flight", "carrier", "dest", "tailnum"):
        texts = [row[name] for row in every]
        found = [t.decode() if isinstance(t, bytes) else str(t) for t in texts]
        assert sorted(found) == sorted(row[name] if row[name] != "NA" else "" for row in raw)
    assert not list(folder.glob("*/dead_letter"))
    for split, rows in splits.items():
        found = made.statistics[split].columns
        delays = np.array([row["dep_delay"] for row in rows])
        assert found["dep_delay"].count == np.isfinite(delays).sum()
        np.testing.assert_allclose(found["dep_delay"].mean, np.nanmean(delays), rtol=1e-9)
        np.testing.assert_allclose(found["dep_delay"].variance, np.nanvar(delays), rtol=1e-9)
        origins = collections.Counter(row["origin"].decode() for row in rows)
        assert found["origin"].vocabulary == tuple(origins.most_common())


def test_bad_rows_are_kept_and_the_others_become_records(mixed, tmp_path):
    made, folder, said = table_runs.run(mixed, tmp_path)
    rows = table_runs.records(mixed, made, folder) + table_runs.records(mixed, made, folder, "eval")
    assert sorted(row["id"] for row in rows) == list(range(300))
    assert [
        (x["row"], x["column"], x["reason"], x["value"]) for x in table_runs.letters(folder)
    ] == [
        (102, "id", "type", "x"),
        (103, "size", "range", "500"),
        (104, None, "columns", "1001,a"),
        (305, "label", "missing", None),
    ]
    assert all(letter["file"].endswith("in.csv") for letter in table_runs.letters(folder))
    assert "train: 4 of 304 rows are dead letters:" in said and "1 x size range" in said


def test_more_than_the_budget_fails_before_there_is_a_manifest(mixed, tmp_path):
    tight = tables.make_config(mixed.data.inputs["train"]["files"], error_budget=0.01)
    with pytest.raises(
        errors.DataError, match=r"4 of 304 rows are bad, data.error_budget 0\.01 al"
    ):
        table_runs.run(tight, tmp_path)
    (folder,) = (tmp_path / "records" / "table").glob("[0-9a-f]*/")
    assert not (folder / "manifest.json").exists()
    assert len(table_runs.letters(folder)) == 4, "they must stay to be looked at"


def test_without_a_budget_the_first_bad_row_is_named(mixed, tmp_path):
    strict = tables.make_config(mixed.data.inputs["train"]["files"])
    with pytest.raises(errors.DataError, match=r"in.csv': row 10[24]: ") as info:
        table_runs.run(strict, tmp_path)
    assert info.value.exit_code == 65 and "\n" not in str(info.value)


def test_chunks_and_workers_change_nothing(mixed, tmp_path):
    _, folder, _ = table_runs.run(mixed, tmp_path / "whole")
    whole = table_runs.files(folder)
    cut = base.Sizes(300, 900)
    _, folder, _ = table_runs.run(mixed, tmp_path / "cut", sizes=cut)
    assert table_runs.files(folder) == whole
    _, folder, _ = table_runs.run(mixed, tmp_path / "workers", num_workers=2, sizes=cut)
    assert table_runs.files(folder) == whole


def test_of_rows_with_the_same_key_the_first_is_kept(tmp_path):
    (tmp_path / "a.csv").write_text(
        tables.text("1,first,1,0", *tables.rows(50, first=2), "1,again,1,1")
    )
    (tmp_path / "b.csv").write_text(tables.text("7,other,1,0"))
    keyed = tables.make_config(tmp_path / "*.csv", key=["id"], error_budget=5)
    made, folder, _ = table_runs.run(keyed, tmp_path)
    rows = table_runs.records(keyed, made, folder) + table_runs.records(keyed, made, folder, "eval")
    assert sorted(row["id"] for row in rows) == list(range(1, 52))
    assert {row["id"]: row["name"] for row in rows}[1] == b"first"
    found = {
        (pathlib.Path(x["file"]).name, x["row"], x["column"], x["reason"])
        for x in table_runs.letters(folder)
    }
    assert found == {("a.csv", 53, "id", "duplicate"), ("b.csv", 2, "id", "duplicate")}


def test_without_a_budget_a_repeated_key_fails(tmp_path):
    (tmp_path / "a.csv").write_text(tables.text("1,a,1,0", "2,b,1,0", "1,c,1,0"))
    keyed = tables.make_config(tmp_path / "a.csv", key=["id"])
    with pytest.raises(
        errors.DataError, match="row 4: column 'id' has the value of an earlier row"
    ):
        table_runs.run(keyed, tmp_path)


def test_no_key_is_in_two_splits(tmp_path):
    lines = [f"{i % 40},n{i},1,0" for i in range(400)]
    (tmp_path / "a.csv").write_text(tables.text(*lines))
    columns = {**tables.COLUMNS, "name": {"type": "string"}}
    keyed = tables.make_config(tmp_path / "a.csv", columns, key=["id", "name"])
    made, folder, _ = table_runs.run(keyed, tmp_path)
    train, held = (table_runs.records(keyed, made, folder, split) for split in ("train", "eval"))
    names = [{(row["id"], row["name"]) for row in rows} for rows in (train, held)]
    assert not names[0] & names[1] and len(names[0] | names[1]) == 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,name,size,label\n", r"data.inputs.train \(.*in.csv\): no rows"),
        (tables.text("x,a,1,0", "y,a,1,0"), r"none of 2 rows is left: 0 dropped, 2 bad"),
    ],
)
def test_no_rows(tmp_path, content, message):
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(errors.DataError, match=message) as info:
        table_runs.run(tables.make_config(tmp_path / "in.csv", error_budget=10), tmp_path)
    assert info.value.exit_code == 65


def test_a_field_of_50_mb_is_one_line(tmp_path):
    with open(tmp_path / "in.csv", "w") as file:
        file.write(tables.text(*tables.rows(10)) + f"10,{'x' * (50 << 20)},1,0\n")
    with pytest.raises(errors.DataError, match=r"in.csv': row 11 is longer than 16 MiB"):
        table_runs.run(tables.make_config(tmp_path / "in.csv", error_budget=10), tmp_path)


def test_a_long_field_is_a_letter(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(10), f"10,{'x' * (9 << 20)},1,0"))
    _, folder, _ = table_runs.run(
        tables.make_config(tmp_path / "in.csv", error_budget=10), tmp_path
    )
    (letter,) = table_runs.letters(folder)
    assert letter["value"] == "x" * 64 + "... (9,437,184 characters)"


def _write_ids(path: pathlib.Path, rows: list[tuple[int, int | None, int]]) -> None:
    """Writes 64-bit hashes, ids with gaps as pandas has them, and a label."""
    names = ("hashed", "gap", "label")
    if path.suffix == ".csv":
        lines = [f"{a},{'' if b is None else f'{b}.0'},{c}" for a, b, c in rows]
        path.write_text("\n".join([",".join(names), *lines, ""]))
    elif path.suffix == ".jsonl":
        objects = [
            dict(zip(names, (a, None if b is None else float(b), c), strict=True))
            for a, b, c in rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in objects))
    else:
        kinds = (pa.uint64(), pa.float64(), pa.int64())
        columns = [
            pa.array(column, k) for column, k in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
        pq.write_table(pa.table(columns, names), path)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ids_that_differ_in_their_last_digit_stay_different(tmp_path, ending):
    """Of float32 all of a column would be one number."""
    hashed = [2**63 - 50 + i for i in range(100)]
    rows = [(hashed[i % 100], None if i % 7 == 0 else 2**24 + i % 90, i % 2) for i in range(300)]
    raw, out = tmp_path / f"raw.{ending}", tmp_path / "made.yaml"
    _write_ids(raw, rows)
    with contextlib.redirect_stdout(io.StringIO()):
        write_config.write(str(out), write_config.propose(str(raw), str(out), "label").text)
    loaded = config_file.load(str(out))
    made, folder, _ = table_runs.run(loaded, tmp_path)
    records = [
        row for split in made.splits for row in table_runs.records(loaded, made, folder, split)
    ]
    assert collections.Counter(row["hashed"] for row in records) == collections.Counter(
        str(a).encode() for a, _, _ in rows
    )
    absent = loaded.data.columns["gap"].stands_for_missing
    assert collections.Counter(row["gap"] for row in records) == collections.Counter(
        absent if b is None else b for _, b, _ in rows
    )
    assert "whole numbers of more than 64 bits: kept as text" in out.read_text()


def test_a_sample_is_counted_and_the_same_however_it_is_made(tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(2000), "x,a,1,0"))
    rule = {"column": "label", "value": 0, "keep": 0.25}
    sampled = tables.make_config(tmp_path / "in.csv", sample=rule, key=["id"], error_budget=1)
    made, folder, said = table_runs.run(sampled, tmp_path)
    labels = [row["label"] for row in table_runs.records(sampled, made, folder)]
    everything, all_folder, _ = table_runs.run(
        tables.make_config(tmp_path / "in.csv", key=["id"], error_budget=1), tmp_path / "all"
    )
    of_all = table_runs.records(sampled, everything, all_folder)
    negative = sum(row["label"] == 0 for row in of_all)
    dropped = len(of_all) - len(labels)
    assert labels.count(1) == len(of_all) - negative
    assert abs(labels.count(0) - 0.25 * negative) < 5 * (0.25 * 0.75 * negative) ** 0.5
    assert made.sampled == manifest.Sampled(column="label", value=0, keep=0.25, dropped=dropped)
    line = f"keeps 25 % of the rows of train with 0 in label; {dropped:,} were left out."
    assert line in said
    assert made.statistics["train"].columns["label"].vocabulary == tuple(
        (label, labels.count(label))
        for label, _ in everything.statistics["train"].columns["label"].vocabulary
    ), "in the order of all rows"
    eval_rows = [
        table_runs.records(sampled, m, f, "eval")
        for m, f in ((made, folder), (everything, all_folder))
    ]
    assert eval_rows[0] == eval_rows[1], "rows that models are judged by all stay"
    cut = base.Sizes(3000, 9000)
    _, by_two, _ = table_runs.run(sampled, tmp_path / "two", num_workers=2, sizes=cut)
    assert table_runs.files(by_two) == table_runs.files(folder)
    other = tables.make_config(
        tmp_path / "in.csv", sample=rule, key=["id"], error_budget=1, shards={"train": 5}
    )
    found, other_folder, _ = table_runs.run(other, tmp_path / "five")
    kept = [
        sorted(row["id"] for row in table_runs.records(sampled, *one))
        for one in ((made, folder), (found, other_folder))
    ]
    assert kept[0] == kept[1]


def _answers(tmp_path, **data):
    """Returns the answers of train in the order of the manifest, and how often each is there: of
    400 rows with no, which are in place 1, and 150 with yes, in place 2."""
    answers = ["1,no"] * 400 + ["2,yes"] * 150
    rows = [f"{i},{answer}" for i, answer in enumerate(answers)]
    (tmp_path / "in.csv").write_text(tables.text(*rows, header="id,place,answer"))
    whole = {"type": "int64"}
    columns = {"id": whole, "place": whole, "answer": {"type": "string", "vocabulary": {}}}
    given = {"key": ["id"], "label": "answer", "split": {"eval": 0}, **data}
    made, _, _ = table_runs.run(tables.make_config(tmp_path / "in.csv", columns, **given), tmp_path)
    return made.statistics["train"].columns["answer"].vocabulary


@pytest.mark.parametrize("budget", [0, 1])
@pytest.mark.parametrize(
    "rule", [{"column": "answer", "value": "no"}, {"column": "place", "value": 1}]
)
def test_a_sample_does_not_change_the_order_of_labels(tmp_path, budget, rule):
    """Their places in it are the classes, and so which of two is the positive one."""
    found = _answers(tmp_path, sample={**rule, "keep": 0.1}, error_budget=budget)
    assert [answer for answer, _ in found] == ["no", "yes"]
    assert 0 < dict(found)["no"] < dict(found)["yes"] == 150


def test_a_sample_of_which_nothing_is_left_is_reported(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*(f"{i},n,1,0" for i in range(20))))
    rule = {"column": "label", "value": 0, "keep": 1e-9}
    empty = tables.make_config(tmp_path / "in.csv", sample=rule, key=["id"], split={"eval": 0})
    with pytest.raises(
        errors.DataError,
        match=r"none of 20 rows is left: 0 dropped, 0 bad, 20 left out by data\.sample",
    ):
        table_runs.run(empty, tmp_path)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_ids_beyond_int64_are_the_same_with_a_point(tmp_path, ending):
    """As those below are; programs write them so in columns with gaps."""
    rows = [(f"{2**63 + n % 9}{'.0' if n % 4 == 3 else ''}", n % 2) for n in range(60)]
    raw, out = tmp_path / f"raw.{ending}", tmp_path / "made.yaml"
    form = '{{"id": {}, "y": {}}}\n' if ending == "jsonl" else "{},{}\n"
    head = "" if ending == "jsonl" else "id,y\n"
    raw.write_text(head + "".join(form.format(*row) for row in rows))
    made = write_config.propose(str(raw), str(out), "y")
    write_config.write(str(out), made.text)
    assert "9 different, whole numbers of more than 64 bits" in made.text
    loaded = config_file.load(str(out))
    built, folder, _ = table_runs.run(loaded, tmp_path)
    found = {
        row["id"]
        for split in built.splits
        for row in table_runs.records(loaded, built, folder, split)
    }
    assert found == {str(2**63 + n).encode() for n in range(9)}
