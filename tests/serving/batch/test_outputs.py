"""Files of predictions, in each format, whole or not there."""

from __future__ import annotations

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import errors
from serving.batch import outputs

TABLES = [
    pa.table(
        {
            "file": ["a,b.csv", 'c"d.csv'],
            "row": [2, 3],
            "label": pa.array([None, "yes"]),
            "score": pa.array([0.1, float("nan")], pa.float32()),
            "vector": [[1.0, 2.5], [3.0, 4.0]],
        }
    ),
    pa.table(
        {
            "file": ["é"],
            "row": [4],
            "label": pa.array(["no"]),
            "score": pa.array([1e-7], pa.float32()),
            "vector": [[0.0, 0.0]],
        }
    ),
]


def _comparable(table):
    """No number that is none equals itself."""
    return table.schema, table.drop(["score"]).to_pylist(), str(table["score"].to_pylist())


def _write(kind, target, new=True):
    outputs.write(iter(TABLES), kind, str(target), new=new)
    return target


def test_csv_has_one_header_and_the_digits_of_float32(tmp_path):
    assert _write("csv", tmp_path / "p.csv").read_text().splitlines() == [
        "file,row,label,score,vector",
        '"a,b.csv",2,,0.1,"[1.0, 2.5]"',
        '"c""d.csv",3,yes,nan,"[3.0, 4.0]"',
        'é,4,no,1e-7,"[0.0, 0.0]"',
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_large_numbers_have_all_their_digits(tmp_path, kind):
    values = np.array([1700000256, -65536.0078125, 65535.99, 0.1, 3e38], np.float32)
    target = tmp_path / f"p.{kind}"
    table = pa.table({"prediction": pa.array([*values, None], pa.float32())})
    outputs.write(iter([table]), kind, str(target), new=True)
    text = target.read_text().splitlines()
    texts = text[1:] if kind == "csv" else [line.split(": ")[1].rstrip("}") for line in text]
    assert [float(x) for x in texts[:2]] == [1700000256.0, -65536.0078125]
    assert texts[2:4] == ["65535.99", "0.1"]
    assert float(texts[4]) == float(values[4])


def test_jsonl_is_strict_json(tmp_path):
    lines = _write("jsonl", tmp_path / "p.jsonl").read_text().splitlines()
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert found[0] == {
        **{"file": "a,b.csv", "row": 2, "label": None, "score": 0.1},
        "vector": [1.0, 2.5],
    }
    assert [row["score"] for row in found] == [0.1, None, 1e-7]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("made", "values"),
    [
        (pa.list_(pa.float32()), [1.0, None, float("inf"), float("nan")]),
        (pa.list_(pa.float64(), 2), [1.0, float("-inf")]),
        (pa.list_(pa.list_(pa.float32())), [[1.0], None, [float("nan"), 2.0]]),
    ],
)
def test_what_no_number_is_in_a_vector_is_null(tmp_path, kind, made, values):
    table = pa.table({"v": pa.array([values, None], made)})
    target = tmp_path / f"p.{kind}"
    outputs.write(iter([table]), kind, str(target), new=True)
    text = target.read_text().splitlines()
    read = list(csv.DictReader(text)) if kind == "csv" else list(map(json.loads, text))
    found = json.loads(read[0]["v"]) if kind == "csv" else read[0]["v"]
    assert found == _without_infinities(values)
    assert read[1]["v"] in (None, "null")


def _without_infinities(value):
    if isinstance(value, list):
        return [_without_infinities(item) for item in value]
    return value if value is not None and np.isfinite(value) else None


def test_parquet_has_all_parts(tmp_path):
    found = pq.read_table(_write("parquet", tmp_path / "p.parquet"))
    assert _comparable(found) == _comparable(pa.concat_tables(TABLES))


@pytest.mark.parametrize("kind", outputs.FORMATS)
def test_nothing_is_left_of_a_file_that_failed(tmp_path, kind):
    def broken():
        yield TABLES[0]
        raise OSError(28, "No space left on device")

    target = tmp_path / "p"
    with pytest.raises(errors.RetryableError, match=r"cannot write '.*/p': No space left"):
        outputs.write(broken(), kind, str(target), new=True)
    assert os.listdir(tmp_path) == []


def test_what_is_there_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "p.csv"
    target.write_text("precious")
    with pytest.raises(errors.UsageError, match=r"p\.csv': exists, and is not overwritten"):
        _write("csv", target)
    assert target.read_text() == "precious"
    assert _write("csv", target, new=False).read_text().startswith("file,row")
    assert os.listdir(tmp_path) == ["p.csv"]


def test_a_folder_that_is_not_there_is_a_line(tmp_path):
    with pytest.raises(errors.UsageError, match=r"cannot write '.*/absent/p\.csv'"):
        _write("csv", tmp_path / "absent" / "p.csv")


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    found = _write("csv", tmp_path / "p.csv")
    assert found.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("path", "wanted", "found"),
    [
        ("a/b.csv", None, "csv"),
        ("b.JSONL", None, "jsonl"),
        ("gs://b/c.parquet", "parquet", "parquet"),
        ("a.csv/out", "jsonl", "jsonl"),
    ],
)
def test_the_format_is_given_by_the_name_or_the_flag(path, wanted, found):
    assert outputs.format_of(path, wanted) == found


@pytest.mark.parametrize(
    ("path", "wanted", "message"),
    [
        (
            "a.csv/out",
            None,
            r"--output 'a\.csv/out': must end in \.csv, \.jsonl, \.parquet, or say",
        ),
        ("a.csv", "jsonl", r"--output 'a\.csv': ends in \.csv, but --format=jsonl"),
    ],
)
def test_a_name_that_says_nothing_or_otherwise_is_refused(path, wanted, message):
    with pytest.raises(errors.UsageError, match=message):
        outputs.format_of(path, wanted)


def test_parts_are_read_in_order_and_unknown_labels_left_out(tmp_path):
    paths = []
    for number, table in enumerate(TABLES):
        paths.append(str(tmp_path / f"{number}.arrow"))
        with pa.ipc.new_file(paths[-1], table.schema) as writer:
            writer.write_table(table)
    found = outputs.read_tables(paths, labels=True)
    assert [_comparable(table) for table in found] == [_comparable(table) for table in TABLES]
    found = list(outputs.read_tables(paths, labels=False))
    assert [table.column_names for table in found] == [["file", "row", "score", "vector"]] * 2
