"""The whole of making predictions: what is written where, what is said, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import os

import pyarrow.parquet as pq
import pytest

from pipeline import errors
from pipeline.console import figures
from serving.batch import inputs, predictions
from tests import exports

KIND = exports.CLASSIFIER


def _predict(published, given, output=None, budget=None, kind=None, **others):
    """Returns where the predictions are."""
    where = predictions.choose_output(
        published.run, published.export, given, path=output, kind=kind
    )
    asked = inputs.open_files(given, published.job, classes=published.export.classes, budget=budget)
    predictions.predict(published.job, published.export, asked, output=where, **others)
    return where


def _csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def rows(tmp_path):
    """Writes rows as a file, and returns its path."""

    def write(found, name="new.csv", without=()):
        content = exports.text(found, without).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        return str(tmp_path / name)

    return write


ROWS = exports.rows(KIND, 50, seed=1)


def test_values_that_the_step_date_cannot_read_are_reported(classifier, rows, capsys):
    given = rows(ROWS)
    where = predictions.choose_output(
        classifier.run, classifier.export, given, path=None, kind="csv"
    )
    asked = inputs.open_files(given, classifier.job, classes=classifier.export.classes)
    asked = dataclasses.replace(asked, dates={"carrier": ("iso",)})
    predictions.predict(classifier.job, classifier.export, asked, output=where)
    there = sum(row["carrier"] is not None and row["hour"] is not None for row in ROWS)
    said = f"warning: column 'carrier': {there} values are no dates in the form iso, such as 'AA'"
    assert said in capsys.readouterr().out


def test_a_column_of_the_files_that_folders_are_called_like_is_reported(classifier, rows, capsys):
    os.mkdir(os.path.join(os.path.dirname(rows(ROWS)), "carrier=AA"))
    _predict(classifier, rows(ROWS, "carrier=AA/new.csv"))
    said = "\nwarning: 'carrier' is in the names of folders and in the files: that of the files is "
    assert capsys.readouterr().out.count(said) == 1


def test_all_formats_say_the_same(classifier, rows, tmp_path):
    path = rows(ROWS, "new.csv.gz")
    for kind in ("csv", "jsonl", "parquet"):
        _predict(classifier, path, str(tmp_path / f"out.{kind}"))
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    texts = _csv(tmp_path / "out.csv")
    assert list(texts[0]) == list(lines[0]) == list(table[0])
    assert list(table[0])[:5] == ["file", "row", "id", "label", "prediction"]
    for ours, line, text in zip(table, lines, texts, strict=True):
        assert line == {name: type(line[name])(value) for name, value in text.items()}
        assert line == pytest.approx(ours)


def test_rows_without_labels_have_predictions_alone(classifier, rows, tmp_path, capsys):
    path = rows(ROWS, without=("arrival", "id", "pilot", "note"))
    _predict(classifier, path, str(tmp_path / "out.csv"))
    found = _csv(tmp_path / "out.csv")
    assert list(found[0])[:3] == ["file", "row", "prediction"]
    assert len(found) == 50
    assert "with a label" not in capsys.readouterr().out


def test_json_lines_without_labels_have_no_column_of_them(classifier, tmp_path):
    unlabelled = [{n: v for n, v in row.items() if n != "arrival"} for row in ROWS]
    (tmp_path / "new.jsonl").write_text(exports.format_json_lines(unlabelled))
    _predict(classifier, str(tmp_path / "new.jsonl"), str(tmp_path / "out.csv"))
    assert "label" not in _csv(tmp_path / "out.csv")[0]


def test_what_is_reported(regressor, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text(exports.text(exports.rows(exports.REGRESSOR, 40, seed=2)))
    where = _predict(regressor, str(path), rows_shown=2)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"reading {path}: {figures.size(path.stat().st_size)} of csv"
    at = next(
        n for n, line in enumerate(said) if line.split() == ["row", "id", "label", "prediction"]
    )
    assert said[at + 1].split()[0] == "new.csv:2"
    assert said[at + 3].startswith("mean squared error ")
    assert "on 40 rows with a label; always their mean, " in said[at + 3]
    assert said[-2].startswith("40 predictions in ")
    assert said[-1] == f"predictions {where.path}"


def test_in_the_folder_of_the_run_each_input_and_model_has_its_own(classifier, rows, tmp_path):
    one = _predict(classifier, rows(ROWS))
    again = _predict(classifier, rows(ROWS))
    assert one == again
    assert one.path.startswith(f"{classifier.run.path}/predictions/final-60/new-")
    (tmp_path / "other").mkdir()
    other = predictions.choose_output(
        classifier.run, classifier.export, f"{tmp_path}/other/new.csv", path=None, kind=None
    )
    assert other.path != one.path
    split = predictions.choose_output(
        classifier.run, classifier.export, None, path=None, kind="parquet"
    )
    assert split.path == f"{classifier.run.path}/predictions/final-60/test.parquet"


def test_an_existing_file_is_not_overwritten(classifier, rows, tmp_path):
    path = rows(ROWS)
    with pytest.raises(errors.UsageError, match=r"--output '.*new\.csv': exists, and is not overw"):
        _predict(classifier, path, path)
    assert _csv(path)


def test_dead_letters_are_beside_the_predictions(classifier, rows, tmp_path, capsys):
    bad = [dict(row) for row in ROWS]
    bad[7]["origin"] = "SFO"
    _predict(classifier, rows(bad), str(tmp_path / "out.csv"), budget=0.1)
    assert len(_csv(tmp_path / "out.csv")) == 49
    [letter] = map(json.loads, (tmp_path / "out.dead_letter.jsonl").read_text().splitlines())
    assert (letter["row"], letter["column"], letter["reason"]) == (9, "origin", "allowed")
    assert letter["raw"]["delay"] == str(ROWS[7]["delay"])
    said = capsys.readouterr().out
    assert "1 of 50 rows are dead letters:\n  1 x origin allowed\n" in said
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "out.csv", "out.dead_letter.jsonl"]


def test_too_many_bad_rows_are_no_predictions_but_letters(classifier, rows, tmp_path):
    bad = [{**row, "origin": "SFO" if n % 2 else "EWR"} for n, row in enumerate(ROWS)]
    with pytest.raises(
        errors.DataError,
        match=r"25 of 50 rows are bad, data\.error_budget 0\.1 allows 5: 25 x origin allowed",
    ):
        _predict(classifier, rows(bad), str(tmp_path / "out.csv"), budget=0.1)
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "out.dead_letter.jsonl"]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], r"new\.csv': no rows|new\.csv: no rows"),
        ([{**row, "origin": "SFO"} for row in ROWS], "none of 50 rows is left"),
    ],
)
def test_nothing_to_predict_for_is_an_error(classifier, rows, tmp_path, found, message):
    with pytest.raises(errors.DataError, match=message):
        _predict(classifier, rows(found), str(tmp_path / "out.csv"), budget=1000)
    assert not (tmp_path / "out.csv").exists()


def test_letters_of_an_earlier_run_do_not_stay(classifier, rows, tmp_path):
    where = _predict(classifier, rows([{**ROWS[0], "origin": "SFO"}, *ROWS]), budget=1)
    assert os.path.exists(where.dead_letters)
    _predict(classifier, rows(ROWS), budget=1)
    assert not os.path.exists(where.dead_letters)


def test_a_folder_that_cannot_be_made_is_a_line(classifier, rows, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.UsageError, match=r"cannot create folder '[^']*/file': "):
        _predict(classifier, rows(ROWS), str(tmp_path / "file" / "out.csv"))


UNDEFINED = """
name: undefined
data:
  source: csv
  inputs: {train: {files: rows.csv}}
  columns:
    x: {type: float32, min: -5}
    clicked: {type: int64, min: 0, max: 1}
    dwell: {type: float32}
  split: {eval: 0.2, test: 0.2}
  shards: {train: 2}
features:
  x: {steps: [log1p, z_score]}
label: {}
labels:
  clicked: {}
  dwell: {task: regression}
model: {name: mmoe, params: {experts: 2, hidden_units: [4], tower_units: [2]}}
train: {steps: 20, batch_size: 32, optimizer: {name: adam, learning_rate: 0.1}}
eval: {metric: clicked/auc, batch_size: 64}
"""


def test_a_row_of_which_the_model_makes_nan_has_no_prediction(tmp_path, capsys):
    """Of several labels: each is null, and each has its warning."""
    lines = [f"{n % 7},{n % 2},{n}" for n in range(300)]
    table = "\n".join(["x,clicked,dwell", *lines, ""])
    published = exports.publish_table(tmp_path, table, UNDEFINED)
    (tmp_path / "new.csv").write_text("x,clicked,dwell\n3,1,2\n-3,1,2\n4,0,1\n-2,0,1\n")
    capsys.readouterr()
    where = _predict(published, str(tmp_path / "new.csv"), str(tmp_path / "out.jsonl"))
    with open(where.path) as file:
        lines = [json.loads(line) for line in file]
    names = ("prediction", "probability_0", "probability_1")
    answered = [f"clicked/{name}" for name in names] + ["dwell/prediction"]
    assert all(lines[row][name] is None for name in answered for row in (1, 3))
    assert all(lines[row][name] is not None for name in answered for row in (0, 2))
    printed = capsys.readouterr().out
    first = f"the first is row 3 of '{tmp_path}/new.csv': no prediction"
    for label in ("clicked", "dwell"):
        assert f"warning: {label}: the model gives no finite number for 2 rows, {first}" in printed
    assert "on 2 rows with a label" in printed


def test_labels_are_shown_also_if_no_row_has_a_prediction(tmp_path, capsys):
    table = "\n".join(["x,clicked", *(f"{n % 7},{n % 2}" for n in range(300)), ""])
    text = UNDEFINED.replace("    dwell: {type: float32}\n", "  label: clicked\n")
    text = (
        text.partition("label: {}")[0]
        + """label: {}
model: {name: linear}
train: {steps: 20, batch_size: 32, optimizer: {name: adam, learning_rate: 0.1}}
eval: {metric: auc, batch_size: 64}
"""
    )
    published = exports.publish_table(tmp_path, table, text)
    (tmp_path / "new.csv").write_text("x,clicked\n-3,1\n-2,0\n")
    capsys.readouterr()
    where = _predict(published, str(tmp_path / "new.csv"), str(tmp_path / "out.csv"))
    assert [(row["label"], row["prediction"]) for row in _csv(where.path)] == [("1", ""), ("0", "")]
    assert "for 2 rows, the first is row 2 of" in capsys.readouterr().out
