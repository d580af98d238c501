"""Texts that are lists are told from those that just hold a bar, a semicolon or a comma."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file
from preprocessing.schema_inference import profile, suggest_lists, write_config
from tests.preprocessing.schema_inference import proposals

GENRES = ("Action", "Comedy", "Drama", "War", "Crime")
ROWS = [
    {
        "id": n,
        "genres": [GENRES[(n + k * k) % 5] for k in range(1 + n % 4)],
        "seen": [(n * k) % 37 for k in range(n % 6)],
        "label": n % 2,
    }
    for n in range(300)
]


def _found(*texts):
    found = profile.ColumnProfile()
    found.see(pa.array([text.encode() for text in texts]))
    return found


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["a|b|c", "b", "c|a"], "|"),
        (["1|2|3", "2", "3|1"], "|"),
        (["a;b;c", "b", "c;a"], ";"),
        (["a,b,c", "b", "c,a"], ","),
        (["1,234,567", "1,234", "567"], None),  # numbers with groups
        (["1,234,567", "1,234", "567", "-"], None),
        (["1,234,567.5", "1,234.5", "1,567.5"], None),
        (["$1,234,567", "$1,234", "$1,567"], None),
        (["a,b,c", "b", "c,a", "None"], ","),
        (["a,b,c", "c,b,a", "None"], None),  # all of one length
        (["a|x", "b|y", "a|y"], None),  # two values in one
        (["a|b|c", "d|e", "f"], None),  # nothing occurs again
        (["a, b, c", "b, a", "c, a"], None),  # sentences
        (["a|b|", "a|b", "b"], None),  # an item would be empty
        (['["a", "b"]', "[]", '["a, b"]'], "json"),
        (["[1, 2]", "[3]"], "json"),
        (["[1, 2]", "null"], "json"),
        (["['a', 'b']", "[]", '["it\'s"]'], "json"),  # as pandas prints lists
        (["null"], None),
        (["[a]", "[b]"], None),
        (["[2024]", "[[1]]"], None),
        (["2024-01-02", "2024-01-03"], None),
        (["1", "2"], None),
        ([""], None),
    ],
)
def test_separators(texts, mark):
    assert suggest_lists.find_separator(_found(*texts)) == mark


@pytest.mark.parametrize("text", ["", "NA", "-", "None", "null", "n/a", "?"])
def test_numbers_with_groups_of_digits_and_a_text_for_missing_are_numbers(tmp_path, text):
    rows = [f'"{1000 + n * n * 37:,}"' if n % 20 else text for n in range(500)]
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{row},{n % 2}\n" for n, row in enumerate(rows)))
    data = proposals.propose(path).data
    column = data.columns["a"]
    assert (column.type, column.list, column.missing) == ("int64", False, "allow")
    assert data.csv.thousands == "," and text in data.csv.missing


def test_few_texts_with_a_bar_are_no_lists():
    assert suggest_lists.find_separator(_found("a|b|a|b", *(f"t{n}" for n in range(100)))) is None


def _cell(value):
    return "|".join(map(str, value)) or '""' if isinstance(value, list) else str(value)


def _write(folder, kind):
    path = folder / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        lines = [",".join(map(_cell, row.values())) for row in ROWS]
        path.write_text("\n".join([",".join(ROWS[0]), *lines, ""]))
    return str(path)


def test_a_null_of_json_is_a_list_that_is_missing(tmp_path):
    path = tmp_path / "t.csv"
    cells = ('"[""a"", ""b""]"', '"[""a""]"', "null", "[]")
    rows = [f"{n},{cells[n % 4]},{n % 2}" for n in range(40)]
    path.write_text("\n".join(["id,tags,y", *rows, ""]))
    text = write_config.propose(str(path), str(tmp_path / "t.yaml")).text
    tags = config_file.validate(yaml.safe_load(text), where="test").data.columns["tags"]
    assert (tags.list, tags.separator, tags.missing, tags.max_items) == (True, "json", "allow", 2)
    assert tags.on_longer == "truncate"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_half_a_surrogate_pair_in_an_array_of_json_is_a_bad_row(tmp_path, kind):
    texts = ['["\\ud83d"]' if n == 150 else '["a", "b"]' for n in range(400)]
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        columns = {"id": list(range(400)), "tags": texts, "y": [n % 2 for n in range(400)]}
        pq.write_table(pa.table(columns), path)
    else:
        cells = [text.replace('"', '""') for text in texts]
        rows = [f'{n},"{cell}",{n % 2}' for n, cell in enumerate(cells)]
        path.write_text("\n".join(["id,tags,y", *rows, ""]))
    found = write_config.propose(str(path), str(tmp_path / "t.yaml"), label="y")
    job = config_file.validate(yaml.safe_load(found.text), where="test")
    assert (job.data.columns["tags"].list, job.data.columns["tags"].separator) == (True, "json")
    assert "1 of 400 rows are bad: 1 x tags encoding" in found.text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_with_several_bad_items_count_once(tmp_path, kind):
    """No other encoding makes text of half a surrogate pair, or of a NUL, that is an escape."""
    bad = {150: '["\\ud83d", "a", "\\ud83d", "\\ude00"]', 151: '["\\u0000", "\\ud83d"]'}
    texts = [bad.get(n, '["a", "b"]') for n in range(400)]
    path = tmp_path / f"t.{kind}"
    columns = {"id": list(range(400)), "tags": texts, "y": [n % 2 for n in range(400)]}
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
    else:
        cells = [text.replace('"', '""') for text in texts]
        lines = [f'{n},"{cell}",{n % 2}' for n, cell in enumerate(cells)]
        path.write_text("\n".join(["id,tags,y", *lines, ""]))
    found = write_config.propose(str(path), str(tmp_path / "t.yaml"), label="y")
    assert found.damage == "2 of 400 rows are bad: 2 x tags encoding"
    assert found.fix == "fix the data (items in tags have half of a surrogate pair or a NUL)"


def test_lines_with_several_bad_items_count_once(tmp_path):
    path = tmp_path / "t.jsonl"
    bad = {7: ["\ud83d", "a", "\ud83d"]}
    rows = [{"id": n, "tags": bad.get(n, ["a"] * (n % 3)), "y": n % 2} for n in range(400)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = write_config.propose(str(path), str(tmp_path / "t.yaml"), label="y")
    assert found.damage == "1 of 400 rows are bad: 1 x json"
    assert found.fix == (
        f"fix the data ('{path}': row 8: has one half of a surrogate pair, which is not text)"
    )


def test_lists_in_cells_that_are_not_utf_8_are_bad_rows(tmp_path):
    path = tmp_path / "t.csv"
    rows = [b'%d,"[""a"", ""\xc3\xa4""]",%d' % (n, n % 2) for n in range(400)]
    rows[7] = b'7,"[""\xff"", ""\xff""]",1'
    path.write_bytes(b"\n".join([b"id,tags,y", *rows, b""]))
    found = write_config.propose(str(path), str(tmp_path / "t.yaml"), label="y")
    assert found.damage == "1 of 400 rows are bad: 1 x tags encoding"
    assert found.fix == "fix the data, set data.csv.encoding"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_same_lists_are_proposed_of_every_source(tmp_path, kind):
    text = write_config.propose(_write(tmp_path, kind), str(tmp_path / "t.yaml")).text
    job = config_file.validate(yaml.safe_load(text), where="test")
    genres, seen = job.data.columns["genres"], job.data.columns["seen"]
    assert (genres.type, genres.list, genres.max_items) == ("string", True, 4)
    assert (seen.type, seen.list, seen.max_items) == ("int64", True, 5)
    assert (seen.min, seen.max, seen.missing) == (None, None, "reject")
    assert job.features["genres"].combiner == job.features["seen"].combiner == "mean"
    assert "lists of 1 to 4 items; of a longer one the first stay" in text
    count, scale = job.features["genres_count"].steps
    assert (job.features["genres_count"].of, count.by) == (("genres",), "count")
    assert (scale.mean, scale.deviation) == (2.5, 1.12)


def test_items_are_never_what_stands_for_none():
    found = profile.ColumnProfile()
    found.see(pa.array([[1, -1], [], [-3]]))
    assert suggest_lists.suggest_rules(found) == {
        **{"list": True, "max_items": 2, "on_longer": "truncate"},
        "default": -4,
    }
    found = profile.ColumnProfile()
    found.see(pa.array([["a", ""], []]))
    assert suggest_lists.suggest_rules(found)["default"] == "(none)"
    found = profile.ColumnProfile()
    found.see(pa.array([[-(2**63), 8], [], [-1]]))
    assert suggest_lists.suggest_rules(found)["default"] == 9


@pytest.mark.parametrize("item", [math.nan, math.inf])
def test_lists_with_items_that_are_no_numbers_are_left_out(tmp_path, item):
    rows = [{**row, "seconds": [0.5, item] if row["id"] % 9 == 0 else [1.5]} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    job = proposals.propose(tmp_path / "t.parquet")
    assert "seconds" not in job.data.columns
    proposals.check(job.data)
    made = write_config.propose(str(tmp_path / "t.parquet"), str(tmp_path / "t.yaml"))
    assert made.remarks == (
        "'seconds' is left out: it holds lists with NaN or infinite values in them",
    )


def test_numbers_are_pooled_and_many_items_hashed():
    found = profile.ColumnProfile()
    found.see(pa.array([[0.5], [], [1.5, 2.5]]))
    assert suggest_lists.suggest_feature(found) == (
        [{"pool": {"by": "mean"}}],
        None,
        "lists of 0 to 2 items; of a longer one the first stay",
    )
    found = profile.ColumnProfile()
    found.see(pa.array([[f"w{n}", f"w{n + 1}"] for n in range(20_000)] + [[]]))
    [step], embedding, _ = suggest_lists.suggest_feature(found)
    assert step == {"hash": {"buckets": 2**17}}
    assert embedding == {"size": 16, "combiner": "mean"}


def test_a_list_of_one_length_has_no_feature_of_it():
    found = profile.ColumnProfile()
    found.see(pa.array([[1, 2], [3, 4]]))
    assert suggest_lists.suggest_count("a", found) == {}


def test_a_length_far_from_all_others_is_clipped():
    found = profile.ColumnProfile()
    found.see(pa.array([[1], [3, 4]] * 200 + [[5] * 1000]))
    pool, clip, scale = suggest_lists.suggest_count("a", found)["a_count"]
    assert (pool, scale) == (
        {"pool": {"by": "count"}},
        {"z_score": {"mean": 3.99, "deviation": 49.8}},
    )
    assert clip == {"clip": {"max": 402.0}}


@pytest.mark.parametrize("label", ["label", "genres_count"])
def test_the_feature_of_a_length_is_called_like_no_column(tmp_path, label):
    rows = [{**row, "genres_count": n % 7 / 2} for n, row in enumerate(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    text = write_config.propose(str(tmp_path / "t.parquet"), str(tmp_path / "t.yaml"), label).text
    job = config_file.validate(yaml.safe_load(text), where="test")
    assert job.features["genres_count_"].of == ("genres",)
    assert ("genres_count" in job.features) == (label == "label")


def test_a_list_is_no_label(tmp_path):
    path = _write(tmp_path, "jsonl")
    with pytest.raises(
        errors.UsageError, match="LABEL=genres: is a list, and a label is one value"
    ):
        write_config.propose(path, str(tmp_path / "t.yaml"), "genres")


@pytest.mark.parametrize("lines", ['{"a": [1]}\n{"a": []}\n', '{"a": []}\n{"a": 0}\n'])
def test_nothing_but_lists(tmp_path, lines):
    (tmp_path / "t.jsonl").write_text(lines)
    with pytest.raises(errors.DataError, match="all columns are lists, and a label is one value"):
        write_config.propose(str(tmp_path / "t.jsonl"), str(tmp_path / "t.yaml"))


def test_one_long_list_among_rows_of_few_categories_is_no_list():
    found = _found(*["Rome", "Paris", "Oslo"] * 300, ",".join(["Rome", "Paris", "Oslo"] * 100))
    assert suggest_lists.find_separator(found) is None
