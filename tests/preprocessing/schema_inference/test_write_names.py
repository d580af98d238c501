"""Names of columns, files and configs in a config that is written."""

from __future__ import annotations

import csv

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file
from preprocessing.schema_inference import write_config
from tests.preprocessing.schema_inference.proposals import check, propose


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/Flights 2013.csv.gz", "flights-2013"),
        ("data/sales/*.parquet", "sales"),
        ("gs://bucket/x/part-*.jsonl", "part"),
        ("configs/mine.yaml", "mine"),
        ("data/clicks.tfrecord.gz", "clicks"),
        ("data/clicks.tfrecords", "clicks"),
        ("???", "table"),
    ],
)
def test_names(path, name):
    assert write_config.build_name(path) == name


@pytest.mark.parametrize("name", ["2024", "750.5", "1e5", "2013-01-31", "null", "yes", "0x1f"])
def test_names_are_texts_to_yaml_too(tmp_path, name):
    (tmp_path / f"{name}.csv").write_text("a,b\n" + "1,2\n2,5\n" * 9)
    out = tmp_path / f"{name}.yaml"
    write_config.write(str(out), write_config.propose(str(tmp_path / f"{name}.csv"), str(out)).text)
    assert config_file.load(str(out)).name == name


def test_paths_start_at_the_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "t.csv").write_text("a,b\n1,2\n2,3\n")
    guess, found = write_config.explore("raw/t.csv")
    inside = yaml.safe_load(write_config.render(guess, found, name="t", path="configs/t.yaml"))
    assert inside["data"]["inputs"]["train"]["files"] == "../raw/t.csv"
    outside = yaml.safe_load(write_config.render(guess, found, name="t", path="/elsewhere/t.yaml"))
    assert outside["data"]["inputs"]["train"]["files"] == str(tmp_path / "raw" / "t.csv")


@pytest.mark.parametrize("name", ["\n", "a\nb", "a\x85", "\u2028b", "yes", "a: b", "# c", "'", '"'])
def test_names_of_columns_may_hold_anything(tmp_path, name):
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([[name, "b"], ["1", "2"], ["2", "5"]])
    assert list(propose(tmp_path / "t.csv").data.columns) == [name, "b"]


def test_names_that_are_whole_sentences(tmp_path):
    """As of a text without a header, whose first line is taken for one."""
    path = tmp_path / "t.csv"
    path.write_text(f"{'words' * 300},b\n" + "1,2\n2,5\n" * 9)
    assert list(propose(path).data.columns) == ["b"]
    path.write_text(f"{'words' * 300}\n" + "1\n2\n" * 9)
    with pytest.raises(errors.DataError, match=r"has no readable column.* 1,500 characters"):
        propose(path)


@pytest.mark.parametrize("name", ["a b.csv", "[a].csv", "*.csv", "a\nb.csv", "a: {b}.csv", "#.csv"])
def test_files_may_be_called_anything(tmp_path, name):
    (tmp_path / name).write_text("a,b\n" + "1,2\n2,5\n" * 9)
    data = propose(tmp_path / name).data
    assert data.inputs["train"]["files"] == str(tmp_path / name)
    check(data)


def test_columns_that_are_one_to_tensorflow(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("p ($),p (€),p\n" + "".join(f"{i / 7},{i / 3},{i % 2}\n" for i in range(60)))
    assert list(propose(path).features) == ["p ($)"]
    assert "to TensorFlow called like 'p ($)': no feature" in (tmp_path / "made.yaml").read_text()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    with pytest.raises(errors.UsageError, match="is there already; name another file with OUT="):
        write_config.write(str(tmp_path / "mine.yaml"), "x")
